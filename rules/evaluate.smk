# Inputs: the manifests, and the runs that they list. Outputs: rows (one number each, with the
# columns of trueneg.store.rows), and what else figures need, such as curves and t-SNE coordinates.

ON_DEVICE = {"device": setting("{study}/training/device"), "store": "results/runs"}


rule evaluate:
    """Evaluate the networks of a block, such as by probes, retrieval or grounding."""
    input:
        unpack(trainings.networks),
        boxes=trainings.beside_source("boxes"),
        benchmark=trainings.benchmark,
    output:
        rows="results/{study}/rows/{dataset}/{objective}/{block}.parquet",
        curves="results/{study}/artefacts/curves/{dataset}/{objective}/{block}.parquet",
        runs="results/{study}/artefacts/runs/{dataset}/{objective}/{block}.json",
    log:
        "results/{study}/logs/evaluate/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/evaluate/{dataset}/{objective}/{block}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/evaluation/threads")
    resources:
        **growing("{study}/evaluation", trainings.evaluation_gpus),
    params:
        **ON_DEVICE,
        names=trainings.row_names,
        settings=setting("{study}/evaluation"),
    script:
        "../workflow/scripts/evaluate.py"


rule samples:
    """Measure the primary measurement on each test sample, for an interval that covers new ones."""
    input:
        unpack(trainings.networks),
        rows=rules.evaluate.output.rows,  # which are measured again if the evaluation changed
    output:
        samples="results/{study}/artefacts/samples/{dataset}/{objective}/{block}.parquet",
    log:
        "results/{study}/logs/samples/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/samples/{dataset}/{objective}/{block}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/evaluation/threads")
    resources:
        **growing("{study}/evaluation", trainings.evaluation_gpus),
    params:
        **ON_DEVICE,
        settings=setting("{study}/evaluation"),
        measured=trainings.primary,
    script:
        "../workflow/scripts/samples.py"


rule suspects:
    """Find the most similar training samples with different labels, or of different pairs."""
    input:
        source=trainings.source,
        subsets=trainings.first_subsets,
        vectors=trainings.vectors,
    output:
        suspects="results/{study}/artefacts/suspects/{dataset}.parquet",
    log:
        "results/{study}/logs/suspects/{dataset}.log",
    benchmark:
        "results/{study}/timings/suspects/{dataset}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/features"),
    params:
        study=setting("{study}"),
    script:
        "../workflow/scripts/suspects.py"


rule select:
    """Select one configuration of each tuned objective, on validation data of pilot seeds."""
    input:
        rows=trainings.pilots(rules.evaluate.output.rows),
    output:
        winners="results/{study}/tuning/winners.json",
        rows="results/{study}/artefacts/tuning.parquet",
    log:
        "results/{study}/logs/select.log",
    benchmark:
        "results/{study}/timings/select.jsonl"
    wildcard_constraints:
        study=any_of(name for name, tuning in trainings.tuned.items() if tuning.winners is None),
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/select"),
    params:
        **versions.version_parameter("comparison"),
        settings=trainings.selecting,
    message:
        "Select the settings of {wildcards.study}: {log}"
    script:
        "../workflow/scripts/select_winners.py"


rule compare:
    """Gather the rows of a study; compute the selection, the headroom and the primary contrast."""
    input:
        **trainings.every_output(rules.evaluate),
        pilots=trainings.pilots(rules.evaluate.output.runs),
        samples=trainings.samples,
        winners=trainings.winners,
        published=branch(setting("{study}/published"), then=PUBLISHED),
    output:
        rows="results/{study}/artefacts/rows.parquet",
        curves="results/{study}/artefacts/curves.parquet",
        runs="results/{study}/artefacts/runs.json",
        candidates="results/{study}/artefacts/candidates.parquet",
        published="results/{study}/artefacts/published.parquet",
        comparison="results/{study}/artefacts/comparison.json",
        study="results/{study}/artefacts/study.yaml",
    log:
        "results/{study}/logs/compare.log",
    benchmark:
        "results/{study}/timings/compare.jsonl"
    wildcard_constraints:
        study=any_of(trainings.studies),
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/compare"),
    params:
        **versions.version_parameter("comparison"),
        study=setting("{study}"),
        protocol=lookup("{study}", within=protocols),
    message:
        "Compare the objectives of {wildcards.study}: {log}"
    script:
        "../workflow/scripts/compare.py"


rule retrieval_examples:
    """Retrieve examples for some queries with the networks of the first seed."""
    input:
        unpack(trainings.networks),
    output:
        examples="results/{study}/artefacts/retrieval/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/retrieval_examples/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/retrieval_examples/{dataset}/{objective}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/evaluation/threads")
    resources:
        **growing("{study}/evaluation", trainings.evaluation_gpus),
    params:
        **ON_DEVICE,
    script:
        "../workflow/scripts/retrieval_examples.py"


rule embedding:
    """Compute t-SNE coordinates of the test images with the networks of the first seed."""
    input:
        unpack(trainings.networks),
    output:
        embedding="results/{study}/artefacts/embedding/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/embedding/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/embedding/{dataset}/{objective}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/evaluation/threads")
    resources:
        **growing("{study}/evaluation", trainings.evaluation_gpus),
    params:
        **ON_DEVICE,
        images=setting("{study}/figures/embedding/images"),
    script:
        "../workflow/scripts/embedding.py"


rule pair_pictures:
    """Compute similarities of pairs and heatmaps of phrases with the networks of the first seed."""
    input:
        unpack(trainings.networks),
        boxes=trainings.beside_source("boxes"),
        benchmark=trainings.benchmark,
    output:
        similarities="results/{study}/artefacts/similarities/{dataset}/{objective}.parquet",
        overlays="results/{study}/artefacts/overlays/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/pair_pictures/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/pair_pictures/{dataset}/{objective}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/evaluation/threads")
    resources:
        **growing("{study}/evaluation", trainings.evaluation_gpus),
    params:
        **ON_DEVICE,
        settings=setting("{study}/evaluation"),
        phrases=trainings.phrases,
    script:
        "../workflow/scripts/pair_pictures.py"


rule eta_errors:
    """Measure how far the class probabilities of each run are from the known ones."""
    input:
        runs=trainings.every(rules.evaluate.output.runs),
        sources=trainings.pair_sources,
        subsets=trainings.every(rules.subsets.output.subsets),
    output:
        errors="results/{study}/artefacts/eta_errors.parquet",
    log:
        "results/{study}/logs/eta_errors.log",
    benchmark:
        "results/{study}/timings/eta_errors.jsonl"
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/eta_errors"),
    script:
        "../workflow/scripts/eta_errors.py"


rule human_ratings:
    """Measure how well the networks of a block rank the negatives that raters found false."""
    input:
        unpack(trainings.networks),
        ratings=trainings.beside_source("ratings"),
    output:
        areas="results/{study}/artefacts/human_ratings/{dataset}/{objective}/{block}.parquet",
        bins="results/{study}/artefacts/human_ratings/{dataset}/{objective}/{block}-bins.parquet",
    log:
        "results/{study}/logs/human_ratings/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/human_ratings/{dataset}/{objective}/{block}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/evaluation/threads")
    resources:
        **growing("{study}/evaluation", trainings.evaluation_gpus),
    params:
        **ON_DEVICE,
        names=trainings.row_names,
        settings=setting("{study}/evaluation"),
    script:
        "../workflow/scripts/human_ratings.py"


rule rating_references:
    """Rank the rated negatives by one expert, by TF-IDF and by the language model."""
    input:
        unpack(trainings.networks),
        ratings=trainings.beside_source("ratings"),
    output:
        areas="results/{study}/artefacts/rating_references/{dataset}/{block}.parquet",
        eta="results/{study}/artefacts/rating_references/{dataset}/{block}-eta.parquet",
        correlations="results/{study}/artefacts/rating_references/{dataset}/{block}-correlations.parquet",
    log:
        "results/{study}/logs/rating_references/{dataset}/{block}.log",
    benchmark:
        "results/{study}/timings/rating_references/{dataset}/{block}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/evaluation/threads")
    resources:
        **growing("{study}/evaluation", trainings.evaluation_gpus),
    params:
        **ON_DEVICE,
        settings=setting("{study}/evaluation"),
    script:
        "../workflow/scripts/rating_references.py"


rule rating_summary:
    """Compute intervals over anchors for every ranking, and compare η with the ratings."""
    input:
        **trainings.every_output(rules.human_ratings),
        references=trainings.every(rules.rating_references.output.areas),
        captions=trainings.every(rules.rating_references.output.eta),
        correlated=trainings.every(rules.rating_references.output.correlations),
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
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/rating_summary"),
    script:
        "../workflow/scripts/rating_summary.py"
