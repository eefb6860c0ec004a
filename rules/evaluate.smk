# Needs the manifests (and the runs that they list).  Makes rows: one number each, by study, data set, objective, seed, split, task, setting
# and metric; and the artefacts that figures need beyond rows: training curves, records of the runs, t-SNE coordinates, comparisons.


def first_block(wildcards):
    """The block of a study's first seed."""
    return next(iter(runs.blocks(studies[wildcards.study])))


def manifest_of_first_block(wildcards):
    """The manifest with the first seed's run."""
    return f"results/{wildcards.study}/manifests/{wildcards.dataset}/{wildcards.objective}/{first_block(wildcards)}.json"


def subsets_of_first_block(wildcards):
    """The subsets with the first seed's."""
    return f"results/{wildcards.study}/subsets/{wildcards.dataset}/{first_block(wildcards)}.parquet"


rule evaluate:
    """Linear probes, nearest neighbours and mean classifier on the frozen encoders of a block."""
    input:
        source=source_of_dataset,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
        manifest="results/{study}/manifests/{dataset}/{objective}/{block}.json",
    output:
        rows="results/{study}/rows/{dataset}/{objective}/{block}.parquet",
        curves="results/{study}/artefacts/curves/{dataset}/{objective}/{block}.parquet",
        runs="results/{study}/artefacts/runs/{dataset}/{objective}/{block}.json",
    params:
        settings=lookup(dpath="{study}/evaluation", within=settings),
        device=lookup(dpath="{study}/training/device", within=settings),
        store="results/runs",
    threads: lookup(dpath="{study}/evaluation/threads", within=settings)
    resources:
        gpu=lookup(dpath="{study}/evaluation/gpu", within=settings),
        mem_mb=lookup(dpath="{study}/evaluation/mem_mb", within=settings),
        runtime=lookup(dpath="{study}/evaluation/runtime", within=settings),
    log:
        "results/{study}/logs/evaluate/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/evaluate/{dataset}/{objective}/{block}.jsonl"
    script:
        "../workflow/scripts/evaluate.py"


rule embedding:
    """t-SNE coordinates of the first seed's test images."""
    input:
        source=source_of_dataset,
        subsets=subsets_of_first_block,
        manifest=manifest_of_first_block,
    output:
        embedding="results/{study}/artefacts/embedding/{dataset}/{objective}.parquet",
    params:
        images=lookup(dpath="{study}/figures/embedding/images", within=settings),
        device=lookup(dpath="{study}/training/device", within=settings),
        store="results/runs",
    threads: lookup(dpath="{study}/evaluation/threads", within=settings)
    resources:
        gpu=lookup(dpath="{study}/evaluation/gpu", within=settings),
        mem_mb=lookup(dpath="{study}/evaluation/mem_mb", within=settings),
        runtime=lookup(dpath="{study}/evaluation/runtime", within=settings),
    log:
        "results/{study}/logs/embedding/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/embedding/{dataset}/{objective}.jsonl"
    script:
        "../workflow/scripts/embedding.py"


rule compare:
    """Gather a study's rows, and settle selection, gate and primary contrast."""
    input:
        rows=results_of_study("results/{study}/rows/{dataset}/{objective}/{block}.parquet"),
        curves=results_of_study("results/{study}/artefacts/curves/{dataset}/{objective}/{block}.parquet"),
        runs=results_of_study("results/{study}/artefacts/runs/{dataset}/{objective}/{block}.json"),
    output:
        rows="results/{study}/artefacts/rows.parquet",
        curves="results/{study}/artefacts/curves.parquet",
        runs="results/{study}/artefacts/runs.json",
        selection="results/{study}/artefacts/selection.parquet",
        comparison="results/{study}/artefacts/comparison.json",
        study="results/{study}/artefacts/study.yaml",
    params:
        study=lookup(dpath="{study}", within=settings),
    resources:
        mem_mb=2000,
        runtime=10,
    log:
        "results/{study}/logs/compare.log",
    benchmark:
        "results/{study}/timings/compare.jsonl"
    script:
        "../workflow/scripts/compare.py"
