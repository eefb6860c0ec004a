# Needs the manifests (and the runs that they list).  Makes rows (one number each, with the columns of trueneg.store.rows), and the
# artefacts that figures need beyond rows: training curves, records of the runs, t-SNE coordinates, comparisons.


rule evaluate:
    """Linear probes, nearest neighbours and mean classifier on the frozen encoders of a block."""
    input:
        source=plan.source,
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
        study=plan.pattern(plan.images),
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
        "../workflow/scripts/evaluate.py"


rule embedding:
    """t-SNE coordinates of the first seed's test images."""
    input:
        source=plan.source,
        subsets=plan.first_subsets,
        manifest=plan.first_manifest,
    output:
        embedding="results/{study}/artefacts/embedding/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/embedding/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/embedding/{dataset}/{objective}.jsonl"
    threads: plan.setting("evaluation/threads")
    resources:
        gpu=plan.setting("evaluation/gpu"),
        mem_mb=plan.growing("evaluation/mem_mb"),
        runtime=plan.growing("evaluation/runtime"),
    params:
        images=plan.setting("figures/embedding/images"),
        device=plan.setting("training/device"),
        store="results/runs",
    script:
        "../workflow/scripts/embedding.py"


rule compare:
    """Gather a study's rows, and settle selection, gate and primary contrast."""
    input:
        rows=plan.of_study("results/{study}/rows/{dataset}/{objective}/{block}.parquet"),
        curves=plan.of_study(
            "results/{study}/artefacts/curves/{dataset}/{objective}/{block}.parquet"
        ),
        runs=plan.of_study(
            "results/{study}/artefacts/runs/{dataset}/{objective}/{block}.json"
        ),
        published=branch(plan.setting("published"), then=PUBLISHED),
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
        study=plan.pattern(plan.trained),
    resources:
        mem_mb=plan.growing(2000),
        runtime=plan.growing(10),
    params:
        study=plan.setting(""),
    script:
        "../workflow/scripts/compare.py"
