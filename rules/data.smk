# Needs nothing but the sources.  Makes the decoded images (one file a source and resolution) and the subsets of each block of seeds.


rule source:
    """Decode and check a source's images once; a missing or damaged source ends here, before any training."""
    output:
        "results/sources/{source}.npz",
    log:
        "results/sources/logs/{source}.log",
    benchmark:
        "results/sources/timings/{source}.jsonl"
    priority: 10
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(30),
    params:
        settings=plan.reading,
        files=plan.files,
    script:
        "../workflow/scripts/source.py"


rule subsets:
    """Draw the splits and the imbalanced subset of every seed of a block."""
    input:
        source=plan.source,
    output:
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
    log:
        "results/{study}/logs/subsets/{dataset}/{block}.log",
    benchmark:
        "results/{study}/timings/subsets/{dataset}/{block}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.images),
    priority: 10
    resources:
        mem_mb=plan.growing(2000),
        runtime=plan.growing(10),
    params:
        settings=plan.dataset,
        seeds=plan.seeds,
    script:
        "../workflow/scripts/subsets.py"
