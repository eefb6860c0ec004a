# Needs the user's files and, for images with sentences, the sentences and their class probabilities.  Makes the decoded images (one file
# for each source and resolution) and the subsets of each block of seeds.


rule source:
    """Decode and check a source's images once; a missing or damaged source ends here, before any training."""
    output:
        "results/sources/{images}.npz",
    log:
        "results/sources/logs/{images}.log",
    benchmark:
        "results/sources/timings/{images}.jsonl"
    priority: BEFORE_TRAINING
    resources:
        mem_mb=growing("resources/source/mem_mb"),
        runtime=growing("resources/source/runtime"),
    params:
        settings=image_source,
        files=image_files,
    script:
        "../workflow/scripts/source.py"


rule pairs:
    """Decode or draw a source's images once, and join them with their sentences; tables that a source does not have are empty."""
    input:
        unpack(text_of_pairs),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
        boxes="results/pairs/{pairs}-boxes.parquet",
        splits="results/pairs/{pairs}-splits.parquet",
        ratings="results/pairs/{pairs}-ratings.parquet",
        classes="results/pairs/{pairs}-classes.parquet",
    log:
        "results/pairs/logs/{pairs}.log",
    benchmark:
        "results/pairs/timings/{pairs}.jsonl"
    priority: BEFORE_TRAINING
    threads: of_pair_source("threads")
    resources:
        mem_mb=growing_with_pair_source("mem_mb"),
        runtime=growing_with_pair_source("runtime"),
    params:
        settings=pair_source,
        files=pair_files,
        cache="results/pairs/cache/{pairs}",
    script:
        "../workflow/scripts/pairs.py"


rule chexpert_8x200:
    """Decode the images of CheXpert 8×200, and read its sentences."""
    output:
        benchmark="results/benchmarks/{chexpert}.npz",
        sentences="results/benchmarks/{chexpert}.parquet",
    log:
        "results/benchmarks/logs/{chexpert}.log",
    benchmark:
        "results/benchmarks/timings/{chexpert}.jsonl"
    threads: setting("resources/chexpert_8x200/threads")
    resources:
        mem_mb=growing("resources/chexpert_8x200/mem_mb"),
        runtime=growing("resources/chexpert_8x200/runtime"),
    params:
        settings=chexpert,
        files=chexpert_files,
        cache="results/benchmarks/cache/{chexpert}",
    script:
        "../workflow/scripts/chexpert_8x200.py"


rule subsets:
    """Draw the splits of every seed of a block, and the imbalanced subset of images; or take the official splits."""
    input:
        source=source,
        splits=beside_source("splits"),
    output:
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
    log:
        "results/{study}/logs/subsets/{dataset}/{block}.log",
    benchmark:
        "results/{study}/timings/subsets/{dataset}/{block}.jsonl"
    priority: BEFORE_TRAINING
    resources:
        mem_mb=growing("resources/subsets/mem_mb"),
        runtime=growing("resources/subsets/runtime"),
    params:
        settings=dataset,
        seeds=seeds,
    script:
        "../workflow/scripts/subsets.py"
