# Needs the manifests (and the runs that they list).  Makes rows (one number each, with the columns of trueneg.store.rows), and the
# artefacts that figures need beyond rows: training curves, records of the runs, t-SNE coordinates, comparisons.


rule evaluate:
    """Measure the networks of a block: probes and neighbours of images; retrieval, grounding and more of images with sentences."""
    input:
        source=source,
        boxes=beside_source("boxes"),
        benchmark=chexpert_of_study,
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
    threads: setting("{study}/evaluation/threads")
    resources:
        gpu=setting("{study}/evaluation/gpu"),
        mem_mb=growing("{study}/evaluation/mem_mb"),
        runtime=growing("{study}/evaluation/runtime"),
    params:
        names=row_names,
        settings=setting("{study}/evaluation"),
        device=setting("{study}/training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/evaluate.py"


rule embedding:
    """t-SNE coordinates of the first seed's test images."""
    input:
        source=source,
        subsets=first_block("results/{study}/subsets/{dataset}/{block}.parquet"),
        manifest=first_block(
            "results/{study}/manifests/{dataset}/{objective}/{block}.json"
        ),
    output:
        embedding="results/{study}/artefacts/embedding/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/embedding/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/embedding/{dataset}/{objective}.jsonl"
    threads: setting("{study}/evaluation/threads")
    resources:
        gpu=setting("{study}/evaluation/gpu"),
        mem_mb=growing("{study}/evaluation/mem_mb"),
        runtime=growing("{study}/evaluation/runtime"),
    params:
        images=setting("{study}/figures/embedding/images"),
        device=setting("{study}/training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/embedding.py"


rule compare:
    """Gather a study's rows, and settle selection, gate and primary contrast."""
    input:
        rows=blocks_of_study(
            "results/{study}/rows/{dataset}/{objective}/{block}.parquet"
        ),
        curves=blocks_of_study(
            "results/{study}/artefacts/curves/{dataset}/{objective}/{block}.parquet"
        ),
        runs=blocks_of_study(
            "results/{study}/artefacts/runs/{dataset}/{objective}/{block}.json"
        ),
        published=branch(setting("{study}/published"), then=PUBLISHED),
    output:
        rows="results/{study}/artefacts/rows.parquet",
        curves="results/{study}/artefacts/curves.parquet",
        runs="results/{study}/artefacts/runs.json",
        selection="results/{study}/artefacts/selection.parquet",
        published="results/{study}/artefacts/published.parquet",
        comparison="results/{study}/artefacts/comparison.json",
        study="results/{study}/artefacts/study.yaml",
    log:
        "results/{study}/logs/compare.log",
    benchmark:
        "results/{study}/timings/compare.jsonl"
    wildcard_constraints:
        study=any_of(TRAINED),
    resources:
        mem_mb=growing("resources/compare/mem_mb"),
        runtime=growing("resources/compare/runtime"),
    params:
        study=setting("{study}"),
    script:
        "../workflow/scripts/compare.py"


rule pair_pictures:
    """Similarities of pairs, and heatmaps of phrases, under the first seed's networks."""
    input:
        source=source,
        boxes=beside_source("boxes"),
        subsets=first_block("results/{study}/subsets/{dataset}/{block}.parquet"),
        manifest=first_block(
            "results/{study}/manifests/{dataset}/{objective}/{block}.json"
        ),
    output:
        similarities="results/{study}/artefacts/similarities/{dataset}/{objective}.parquet",
        overlays="results/{study}/artefacts/overlays/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/pictures/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/pictures/{dataset}/{objective}.jsonl"
    threads: setting("{study}/evaluation/threads")
    resources:
        gpu=setting("{study}/evaluation/gpu"),
        mem_mb=growing("{study}/evaluation/mem_mb"),
        runtime=growing("{study}/evaluation/runtime"),
    params:
        settings=setting("{study}/evaluation"),
        phrases=phrases,
        device=setting("{study}/training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/pair_pictures.py"


rule eta_by_class:
    """Class probabilities from likelihoods, by latent class, beside the known ones."""
    input:
        sentences=sentences_of_study,
        classes=classes_of_study,
    output:
        table="results/{study}/artefacts/class_probabilities.parquet",
    log:
        "results/{study}/logs/class_probabilities.log",
    benchmark:
        "results/{study}/timings/class_probabilities.jsonl"
    wildcard_constraints:
        study=any_of(IMAGE_TEXT),
    resources:
        mem_mb=growing("resources/eta_by_class/mem_mb"),
        runtime=growing("resources/eta_by_class/runtime"),
    script:
        "../workflow/scripts/eta_by_class.py"


rule retrieval_examples:
    """What the first seed's networks retrieve for some queries."""
    input:
        source=source,
        subsets=first_block("results/{study}/subsets/{dataset}/{block}.parquet"),
        manifest=first_block(
            "results/{study}/manifests/{dataset}/{objective}/{block}.json"
        ),
    output:
        examples="results/{study}/artefacts/retrieval/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/retrieval/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/retrieval/{dataset}/{objective}.jsonl"
    wildcard_constraints:
        study=any_of(IMAGE_TEXT),
    threads: setting("{study}/evaluation/threads")
    resources:
        gpu=setting("{study}/evaluation/gpu"),
        mem_mb=growing("{study}/evaluation/mem_mb"),
        runtime=growing("{study}/evaluation/runtime"),
    params:
        device=setting("{study}/training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/retrieval_examples.py"


rule human_ratings:
    """How the networks of a block rank the negatives that people call false."""
    input:
        source=source,
        ratings=beside_source("ratings"),
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
        study=any_of(RATED),
    threads: setting("{study}/evaluation/threads")
    resources:
        gpu=setting("{study}/evaluation/gpu"),
        mem_mb=growing("{study}/evaluation/mem_mb"),
        runtime=growing("{study}/evaluation/runtime"),
    params:
        names=row_names,
        settings=setting("{study}/evaluation"),
        device=setting("{study}/training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/human_ratings.py"


rule rating_references:
    """How people, words and the text encoder at first rank them, and whether η follows their number."""
    input:
        source=source,
        ratings=beside_source("ratings"),
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
        manifest=first_trained(
            "results/{study}/manifests/{dataset}/{objective}/{block}.json"
        ),
    output:
        areas="results/{study}/artefacts/rating_references/{dataset}/{block}.parquet",
        eta="results/{study}/artefacts/rating_references/{dataset}/{block}-eta.parquet",
        correlations="results/{study}/artefacts/rating_references/{dataset}/{block}-correlations.parquet",
    log:
        "results/{study}/logs/rating_references/{dataset}/{block}.log",
    benchmark:
        "results/{study}/timings/rating_references/{dataset}/{block}.jsonl"
    wildcard_constraints:
        study=any_of(RATED),
    threads: setting("{study}/evaluation/threads")
    resources:
        gpu=setting("{study}/evaluation/gpu"),
        mem_mb=growing("{study}/evaluation/mem_mb"),
        runtime=growing("{study}/evaluation/runtime"),
    params:
        settings=setting("{study}/evaluation"),
        device=setting("{study}/training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/rating_references.py"


rule rating_summary:
    """Intervals over anchors of every ranking, and what is stated beside what people say."""
    input:
        areas=blocks_of_study(
            "results/{study}/artefacts/human_ratings/{dataset}/{objective}/{block}.parquet"
        ),
        bins=blocks_of_study(
            "results/{study}/artefacts/human_ratings/{dataset}/{objective}/{block}-bins.parquet"
        ),
        references=seeds_of_study(
            "results/{study}/artefacts/rating_references/{dataset}/{block}.parquet"
        ),
        captions=seeds_of_study(
            "results/{study}/artefacts/rating_references/{dataset}/{block}-eta.parquet"
        ),
        correlated=seeds_of_study(
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
        study=any_of(RATED),
    resources:
        mem_mb=growing("resources/rating_summary/mem_mb"),
        runtime=growing("resources/rating_summary/runtime"),
    script:
        "../workflow/scripts/rating_summary.py"
