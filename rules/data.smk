# Inputs: the user's files, and sentences with their class probabilities. Outputs: decoded images (a
# file per source and resolution), vectors of frozen towers, and subsets of each block of seeds.


rule source:
    """Decode and check the images of a source once, so that damaged ones are reported early."""
    output:
        "results/sources/{images}.npz",
    log:
        "results/sources/logs/source/{images}.log",
    benchmark:
        "results/sources/timings/source/{images}.jsonl"
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/source"),
    params:
        **data_inputs.parameters("sources/{images}"),
    script:
        "../workflow/scripts/source.py"


rule pairs:
    """Join the images of a source with their sentences; tables that it lacks are empty."""
    input:
        unpack(data_inputs.pair_texts),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
        boxes="results/pairs/{pairs}-boxes.parquet",
        splits="results/pairs/{pairs}-splits.parquet",
        ratings="results/pairs/{pairs}-ratings.parquet",
        classes="results/pairs/{pairs}-classes.parquet",
    log:
        "results/pairs/logs/pairs/{pairs}.log",
    benchmark:
        "results/pairs/timings/pairs/{pairs}.jsonl"
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    threads: setting("resources/{source}_pairs/threads", source=data_inputs.pair_source)
    resources:
        **growing("resources/{source}_pairs", source=data_inputs.pair_source),
    params:
        **data_inputs.parameters("pairs/{pairs}"),
        cache="results/pairs/cache/{pairs}",
    script:
        "../workflow/scripts/pairs.py"


rule texts:
    """Read the texts of a text study once, and join them with any class probabilities."""
    input:
        unpack(data_inputs.texts),
    output:
        texts="results/texts/{texts}.npz",
        sentences="results/texts/{texts}.parquet",
    log:
        "results/texts/logs/texts/{texts}.log",
    benchmark:
        "results/texts/timings/texts/{texts}.jsonl"
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/texts"),
    params:
        **data_inputs.parameters("texts/{texts}"),
    script:
        "../workflow/scripts/texts.py"


rule chexpert_8x200:
    """Decode the images of CheXpert 8×200 and read its sentences."""
    output:
        benchmark="results/benchmarks/{chexpert}.npz",
        sentences="results/benchmarks/{chexpert}.parquet",
    log:
        "results/benchmarks/logs/chexpert_8x200/{chexpert}.log",
    benchmark:
        "results/benchmarks/timings/chexpert_8x200/{chexpert}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    threads: setting("resources/chexpert_8x200/threads")
    resources:
        **growing("resources/chexpert_8x200"),
    params:
        **data_inputs.parameters("benchmarks/{chexpert}"),
        cache="results/benchmarks/cache/{chexpert}",
    script:
        "../workflow/scripts/chexpert_8x200.py"


rule subsets:
    """Draw or read the splits, and draw the imbalanced subsets, for every seed of a block."""
    input:
        source=trainings.source,
        splits=trainings.beside_source("splits"),
    output:
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
    log:
        "results/{study}/logs/subsets/{dataset}/{block}.log",
    benchmark:
        "results/{study}/timings/subsets/{dataset}/{block}.jsonl"
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/subsets"),
    params:
        **versions.version_parameter("subsets"),
        settings=trainings.dataset,
        seeds=trainings.seeds,
        group=setting("{study}/primary/group"),
    script:
        "../workflow/scripts/subsets.py"


rule features:
    """Compute the vectors of a frozen tower for a source once; a killed job resumes."""
    input:
        source=trainings.frozen_source,
    output:
        features="results/features/{features}.npz",
    log:
        "results/features/logs/features/{features}.log",
    benchmark:
        "results/features/timings/features/{features}.jsonl"
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/training/threads", study=trainings.frozen_study)
    resources:
        **growing("resources/features", trainings.frozen_gpus),
    params:
        tower=trainings.frozen_tower,
        device=setting("{study}/training/device", study=trainings.frozen_study),
        cache="results/features/cache/{features}",
    script:
        "../workflow/scripts/features.py"


rule mine:
    """Find the nearest training texts of each anchor by a tower or BM25; a killed job resumes."""
    input:
        source=trainings.source,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
        vectors="results/features/{features}.npz",
    output:
        mined="results/{study}/mined/{dataset}/{features}{ranking}/{block}.npz",
    log:
        "results/{study}/logs/mine/{dataset}/{features}{ranking}/{block}.log",
    benchmark:
        "results/{study}/timings/mine/{dataset}/{features}{ranking}/{block}.jsonl"
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing(
            "resources/mine",
            further={"mem_mb": trainings.mining_memory, "runtime": trainings.mining_minutes},
        ),
    params:
        **versions.version_parameter("mining"),
    script:
        "../workflow/scripts/mine.py"


rule false_negatives:
    """Count the texts with an anchor's label among the nearest ones, by rank and by similarity."""
    input:
        source=trainings.source,
        mined=trainings.mined,
    output:
        shares="results/{study}/artefacts/mined/{dataset}.parquet",
    log:
        "results/{study}/logs/false_negatives/{dataset}.log",
    benchmark:
        "results/{study}/timings/false_negatives/{dataset}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/mine"),
    params:
        miners=trainings.miners,
    script:
        "../workflow/scripts/false_negatives.py"
