# Needs the decoded images and the subsets of a block.  Makes a manifest: which runs of the store belong to it, with checksums.
#
# The runs themselves are no declared outputs: Snakemake deletes those before a job starts and when it fails.


def resolved_runs(wildcards):
    """The runs of a block, every setting resolved."""
    study = studies[wildcards.study]
    listed = runs.runs_of(wildcards.study, study, wildcards.dataset, wildcards.objective, blocks_of(wildcards))
    return [run.to_json() for run in listed]


def memory_for_attempt(wildcards, attempt):
    """More memory with each retry."""
    return studies[wildcards.study].training.mem_mb * attempt


def fingerprint_if_retraining(wildcards):
    """A training job knows the code's fingerprint only when stale runs are to be trained anew."""
    return provenance.fingerprint(provenance.TRAINING) if configuration.retrain_stale else None


rule train:
    """Train the seeds of one objective; finished runs are taken from the store."""
    input:
        source=source_of_dataset,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
    output:
        manifest=ensure("results/{study}/manifests/{dataset}/{objective}/{block}.json", non_empty=True),
    params:
        runs=resolved_runs,
        store="results/runs",
        retrain_stale=fingerprint_if_retraining,
    threads: lookup(dpath="{study}/training/threads", within=settings)
    resources:
        gpu=lookup(dpath="{study}/training/gpu", within=settings),
        mem_mb=memory_for_attempt,
        runtime=lookup(dpath="{study}/training/runtime", within=settings),
    log:
        "results/{study}/logs/train/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/train/{dataset}/{objective}/{block}.jsonl"
    script:
        "../workflow/scripts/train.py"
