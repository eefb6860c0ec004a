# Inputs: the images and the subsets of a block. Output: a manifest of its runs in the store, with
# checksums. Runs are no outputs, because Snakemake deletes those before a job and when it fails.


rule train:
    """Train one objective on a block of seeds; finished runs are reused, others resume."""
    input:
        source=trainings.source,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
        winners=trainings.winners,
        vectors=trainings.vectors,
        mined=trainings.mined,
    output:
        manifest=ensure(
            "results/{study}/manifests/{dataset}/{objective}/{block}.json", non_empty=True
        ),
    log:
        "results/{study}/logs/train/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/train/{dataset}/{objective}/{block}.jsonl"
    priority: trainings.longest_first  # so that no long job is left running alone at the end
    conda:
        "../envs/trueneg.yaml"
    threads: trainings.threads
    resources:
        **growing("{study}/training", trainings.gpus),
    params:
        runs=trainings.runs,
        files=trainings.files,
        store="results/runs",
    script:
        "../workflow/scripts/train.py"
