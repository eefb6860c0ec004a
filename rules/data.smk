# Needs nothing but the sources.  Makes the decoded images (one file a source and resolution) and the subsets of each block of seeds.


def dataset_settings(wildcards):
    """Resolved settings of a study's data set."""
    return runs.datasets(studies[wildcards.study])[wildcards.dataset].model_dump(mode="json")


def sources():
    """Every source that the studies read, with the settings that read it."""
    found = {}
    for study in studies.values():
        for dataset in runs.datasets(study).values():
            reading = dataset.model_dump(mode="json", include={"source", "path", "resolution", "download"})
            found[runs.source_key(reading)] = reading
    return found


def source_settings(wildcards):
    """How to read a source."""
    return sources()[wildcards.source]


def source_of_dataset(wildcards):
    """The decoded images of a data set."""
    return f"results/sources/{runs.source_key(dataset_settings(wildcards))}.npz"


rule source:
    """Decode and check a source's images once; a missing or damaged source ends here, before any training."""
    output:
        "results/sources/{source}.npz",
    params:
        settings=source_settings,
    resources:
        mem_mb=4000,
        runtime=30,
    log:
        "results/sources/logs/{source}.log",
    benchmark:
        "results/sources/timings/{source}.jsonl"
    script:
        "../workflow/scripts/source.py"


rule subsets:
    """Draw the splits and the imbalanced subset of every seed of a block."""
    input:
        source=source_of_dataset,
    output:
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
    params:
        settings=dataset_settings,
        seeds=blocks_of,
    resources:
        mem_mb=2000,
        runtime=10,
    log:
        "results/{study}/logs/subsets/{dataset}/{block}.log",
    benchmark:
        "results/{study}/timings/subsets/{dataset}/{block}.jsonl"
    script:
        "../workflow/scripts/subsets.py"
