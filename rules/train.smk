# Needs the decoded images and the subsets of a block.  Makes a manifest: which runs of the store belong to it, with checksums.
#
# The runs themselves are no declared outputs: Snakemake deletes those before a job starts and when it fails.


rule train:
    """Train the seeds of one objective; finished runs are taken from the store."""
    input:
        source=source,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
    output:
        manifest=ensure(
            "results/{study}/manifests/{dataset}/{objective}/{block}.json",
            non_empty=True,
        ),
    log:
        "results/{study}/logs/train/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/train/{dataset}/{objective}/{block}.jsonl"
    # The longest first, so that none is left over when the others are done.
    priority: longest_first
    threads: of_devices("threads")
    resources:
        gpu=of_devices("gpu"),
        mem_mb=growing("{study}/training/mem_mb"),
        runtime=growing("{study}/training/runtime"),
    params:
        runs=resolved_runs,
        store="results/runs",
        retrain_stale=fingerprint_if_retraining,
    script:
        "../workflow/scripts/train.py"
