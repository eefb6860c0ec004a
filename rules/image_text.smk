# Needs the reports of a likelihood study, their sentences, classes and class probabilities.  Makes images with sentences, splits by patient, and
# what is measured on the networks that rule train made: rows, curves and records as for images; similarities, heatmaps, η by class,
# and, where people have rated pairs, how each method ranks the negatives that they call false.


rule phantom_pairs:
    """Draw the radiographs of synthetic reports, and join them with the reports' sentences."""
    input:
        unpack(plan.joined),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
        boxes="results/pairs/{pairs}-boxes.parquet",
    log:
        "results/pairs/logs/{pairs}.log",
    benchmark:
        "results/pairs/timings/{pairs}.jsonl"
    wildcard_constraints:
        pairs="phantom-[0-9]+px-[0-9a-f]+",
    priority: 10
    threads: 2
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(120),
    params:
        settings=plan.joining,
        seed=plan.reports_seed,
    script:
        "../workflow/scripts/phantom_pairs.py"


rule open_i_pairs:
    """Decode Open-I's radiographs once, and join them with their reports' sentences."""
    input:
        unpack(plan.joined),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
        classes="results/pairs/{pairs}-classes.parquet",
    log:
        "results/pairs/logs/{pairs}.log",
    benchmark:
        "results/pairs/timings/{pairs}.jsonl"
    wildcard_constraints:
        pairs="open_i-[0-9]+px-[0-9a-f]+",
    priority: 10
    threads: 2
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(120),
    params:
        settings=plan.joining,
        files=plan.files,
        archive=plan.archive,
        cache="results/pairs/cache/{pairs}",
    script:
        "../workflow/scripts/open_i_pairs.py"


rule flickr8k_pairs:
    """Decode Flickr8k's photographs once, and join them with their captions."""
    input:
        unpack(plan.joined),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
        splits="results/pairs/{pairs}-splits.parquet",
        ratings="results/pairs/{pairs}-ratings.parquet",
    log:
        "results/pairs/logs/{pairs}.log",
    benchmark:
        "results/pairs/timings/{pairs}.jsonl"
    wildcard_constraints:
        pairs="flickr8k-[0-9]+px-[0-9a-f]+",
    priority: 10
    threads: 2
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(120),
    params:
        settings=plan.joining,
        files=plan.files,
        reports=plan.joined_reports,
        cache="results/pairs/cache/{pairs}",
    script:
        "../workflow/scripts/flickr8k_pairs.py"


rule mimic_cxr_pairs:
    """Decode MIMIC-CXR-JPG's frontal radiographs once, and join them with their reports' sentences and MS-CXR's boxes."""
    input:
        unpack(plan.joined),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
        splits="results/pairs/{pairs}-splits.parquet",
        boxes="results/pairs/{pairs}-boxes.parquet",
    log:
        "results/pairs/logs/{pairs}.log",
    benchmark:
        "results/pairs/timings/{pairs}.jsonl"
    wildcard_constraints:
        pairs="mimic_cxr-[0-9]+px-[0-9a-f]+",
    priority: 10
    threads: 8
    resources:
        mem_mb=plan.growing(16000),
        runtime=plan.growing(720),
    params:
        settings=plan.joining,
        files=plan.files,
        cache="results/pairs/cache/{pairs}",
    script:
        "../workflow/scripts/mimic_cxr_pairs.py"


rule flickr30k_pairs:
    """Decode Flickr30k's photographs once, and join them with their captions."""
    input:
        unpack(plan.joined),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
        splits="results/pairs/{pairs}-splits.parquet",
    log:
        "results/pairs/logs/{pairs}.log",
    benchmark:
        "results/pairs/timings/{pairs}.jsonl"
    wildcard_constraints:
        pairs="flickr30k-[0-9]+px-[0-9a-f]+",
    priority: 10
    threads: 4
    resources:
        mem_mb=plan.growing(8000),
        runtime=plan.growing(240),
    params:
        settings=plan.joining,
        files=plan.files,
        reports=plan.joined_reports,
        cache="results/pairs/cache/{pairs}",
    script:
        "../workflow/scripts/flickr30k_pairs.py"


rule chexpert_8x200:
    """Decode the images of CheXpert 8×200, and read its sentences."""
    output:
        benchmark="results/benchmarks/{benchmark}.npz",
        sentences="results/benchmarks/{benchmark}.parquet",
    log:
        "results/benchmarks/logs/{benchmark}.log",
    benchmark:
        "results/benchmarks/timings/{benchmark}.jsonl"
    threads: 2
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(60),
    params:
        settings=plan.benchmark_settings,
        files=plan.files,
        cache="results/benchmarks/cache/{benchmark}",
    script:
        "../workflow/scripts/chexpert_8x200.py"


rule image_table_pairs:
    """Decode own images once, and join them with their sentences."""
    input:
        unpack(plan.joined),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
    log:
        "results/pairs/logs/{pairs}.log",
    benchmark:
        "results/pairs/timings/{pairs}.jsonl"
    wildcard_constraints:
        pairs="image_table-[0-9]+px-[0-9a-f]+",
    priority: 10
    threads: 2
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(120),
    params:
        settings=plan.joining,
        files=plan.files,
        reports=plan.joined_reports,
        cache="results/pairs/cache/{pairs}",
    script:
        "../workflow/scripts/image_table_pairs.py"


rule pair_subsets:
    """Split the patients of every seed of a block, or take the official splits."""
    input:
        source=plan.source,
        splits=plan.splits,
    output:
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
    log:
        "results/{study}/logs/subsets/{dataset}/{block}.log",
    benchmark:
        "results/{study}/timings/subsets/{dataset}/{block}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.image_text),
    priority: 10
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(10),
    params:
        settings=plan.dataset,
        seeds=plan.seeds,
    script:
        "../workflow/scripts/pair_subsets.py"


rule evaluate_image_text:
    """Zero-shot classification, grounding, retrieval and linear evaluation of the networks of a block."""
    input:
        source=plan.source,
        boxes=plan.boxes,
        benchmark=plan.benchmark,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
        manifest="results/{study}/manifests/{dataset}/{objective}/{block}.json",
    output:
        rows="results/{study}/rows/{dataset}/{objective}/{block}.parquet",
        curves="results/{study}/artefacts/curves/{dataset}/{objective}/{block}.parquet",
        runs="results/{study}/artefacts/runs/{dataset}/{objective}/{block}.json",
    log:
        "results/{study}/logs/evaluate/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/evaluate/{dataset}/{objective}/{block}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.image_text),
    threads: plan.setting("evaluation/threads")
    resources:
        gpu=plan.setting("evaluation/gpu"),
        mem_mb=plan.growing("evaluation/mem_mb"),
        runtime=plan.growing("evaluation/runtime"),
    params:
        names=plan.row_names,
        settings=plan.setting("evaluation"),
        device=plan.setting("training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/evaluate_image_text.py"


rule pair_pictures:
    """Similarities of pairs, and heatmaps of phrases, under the first seed's networks."""
    input:
        source=plan.source,
        boxes=plan.boxes,
        subsets=plan.first_subsets,
        manifest=plan.first_manifest,
    output:
        similarities="results/{study}/artefacts/similarities/{dataset}/{objective}.parquet",
        overlays="results/{study}/artefacts/overlays/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/pictures/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/pictures/{dataset}/{objective}.jsonl"
    threads: plan.setting("evaluation/threads")
    resources:
        gpu=plan.setting("evaluation/gpu"),
        mem_mb=plan.growing("evaluation/mem_mb"),
        runtime=plan.growing("evaluation/runtime"),
    params:
        settings=plan.setting("evaluation"),
        phrases=plan.phrases,
        device=plan.setting("training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/pair_pictures.py"


rule eta_by_class:
    """Class probabilities from likelihoods, by latent class, beside the known ones."""
    input:
        sentences=plan.first_sentences,
        classes=plan.classes,
    output:
        table="results/{study}/artefacts/class_probabilities.parquet",
    log:
        "results/{study}/logs/class_probabilities.log",
    benchmark:
        "results/{study}/timings/class_probabilities.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.image_text),
    resources:
        mem_mb=plan.growing(2000),
        runtime=plan.growing(10),
    script:
        "../workflow/scripts/eta_by_class.py"


rule retrieval_examples:
    """What the first seed's networks retrieve for some queries."""
    input:
        source=plan.source,
        subsets=plan.first_subsets,
        manifest=plan.first_manifest,
    output:
        examples="results/{study}/artefacts/retrieval/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/retrieval/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/retrieval/{dataset}/{objective}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.image_text),
    threads: plan.setting("evaluation/threads")
    resources:
        gpu=plan.setting("evaluation/gpu"),
        mem_mb=plan.growing("evaluation/mem_mb"),
        runtime=plan.growing("evaluation/runtime"),
    params:
        device=plan.setting("training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/retrieval_examples.py"


rule human_ratings:
    """How the networks of a block rank the negatives that people call false."""
    input:
        source=plan.source,
        ratings=plan.ratings,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
        manifest="results/{study}/manifests/{dataset}/{objective}/{block}.json",
    output:
        areas="results/{study}/artefacts/human_ratings/{dataset}/{objective}/{block}.parquet",
        bins="results/{study}/artefacts/human_ratings/{dataset}/{objective}/{block}-bins.parquet",
    log:
        "results/{study}/logs/human_ratings/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/human_ratings/{dataset}/{objective}/{block}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.rated()),
    threads: plan.setting("evaluation/threads")
    resources:
        gpu=plan.setting("evaluation/gpu"),
        mem_mb=plan.growing("evaluation/mem_mb"),
        runtime=plan.growing("evaluation/runtime"),
    params:
        names=plan.row_names,
        settings=plan.setting("evaluation"),
        device=plan.setting("training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/human_ratings.py"


rule rating_references:
    """How people, words and the text encoder at first rank them, and whether η follows their number."""
    input:
        source=plan.source,
        ratings=plan.ratings,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
        manifest=plan.trained_manifest,
    output:
        areas="results/{study}/artefacts/rating_references/{dataset}/{block}.parquet",
        eta="results/{study}/artefacts/rating_references/{dataset}/{block}-eta.parquet",
        correlations="results/{study}/artefacts/rating_references/{dataset}/{block}-correlations.parquet",
    log:
        "results/{study}/logs/rating_references/{dataset}/{block}.log",
    benchmark:
        "results/{study}/timings/rating_references/{dataset}/{block}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.rated()),
    threads: plan.setting("evaluation/threads")
    resources:
        gpu=plan.setting("evaluation/gpu"),
        mem_mb=plan.growing("evaluation/mem_mb"),
        runtime=plan.growing("evaluation/runtime"),
    params:
        settings=plan.setting("evaluation"),
        device=plan.setting("training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/rating_references.py"


rule rating_summary:
    """Intervals over anchors of every ranking, and what is stated beside what people say."""
    input:
        areas=plan.of_study(
            "results/{study}/artefacts/human_ratings/{dataset}/{objective}/{block}.parquet"
        ),
        bins=plan.of_study(
            "results/{study}/artefacts/human_ratings/{dataset}/{objective}/{block}-bins.parquet"
        ),
        references=plan.of_blocks(
            "results/{study}/artefacts/rating_references/{dataset}/{block}.parquet"
        ),
        captions=plan.of_blocks(
            "results/{study}/artefacts/rating_references/{dataset}/{block}-eta.parquet"
        ),
        correlated=plan.of_blocks(
            "results/{study}/artefacts/rating_references/{dataset}/{block}-correlations.parquet"
        ),
    output:
        summary="results/{study}/artefacts/human_ratings/summary.parquet",
        rows="results/{study}/artefacts/human_ratings/rows.parquet",
        calibration="results/{study}/artefacts/human_ratings/calibration.parquet",
        eta="results/{study}/artefacts/human_ratings/eta.parquet",
        correlations="results/{study}/artefacts/human_ratings/correlations.parquet",
    log:
        "results/{study}/logs/rating_summary.log",
    benchmark:
        "results/{study}/timings/rating_summary.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.rated()),
    resources:
        mem_mb=plan.growing(2000),
        runtime=plan.growing(20),
    script:
        "../workflow/scripts/rating_summary.py"
