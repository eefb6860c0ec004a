# Needs the decoded images and the subsets of a block.  Makes a manifest: which runs of the store belong to it, with checksums.
#
# The runs themselves are no declared outputs: Snakemake deletes those before a job starts and when it fails.


rule train:
    """Train the seeds of one objective; finished runs are taken from the store."""
    input:
        source=trainings.source,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
    output:
        manifest=ensure(
            "results/{study}/manifests/{dataset}/{objective}/{block}.json",
            non_empty=True,
        ),
    # The longest first, so that none is left over when the others are done.
    priority: trainings.longest_first
    threads: trainings.of_devices("threads")
    resources:
        **growing("{study}/training"),
        gpu=trainings.of_devices("gpu"),
    params:
        runs=trainings.runs,
        store="results/runs",
        retrain_stale=trainings.retrained_code,
    script:
        "../workflow/scripts/train.py"
