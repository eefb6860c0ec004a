# Needs nothing but the configuration.  Makes the experiments of the theory studies: tidy frames that figures and tables draw.


rule simulate:
    """One experiment on the stochastic process, or one bound beside what it bounds."""
    output:
        frame="results/{study}/artefacts/simulation/{experiment}.parquet",
        code="results/{study}/artefacts/simulation/{experiment}.code",
    log:
        "results/{study}/logs/simulate/{experiment}.log",
    benchmark:
        "results/{study}/timings/simulate/{experiment}.jsonl"
    wildcard_constraints:
        experiment="[a-z_]+",
    resources:
        mem_mb=growing("{study}/mem_mb"),
        runtime=growing("{study}/runtime"),
    params:
        settings=process_and_sweeps,
        code=code(provenance.SIMULATION),
    script:
        "../workflow/scripts/simulate.py"


rule settle:
    """Write down the resolved settings of a study that has no runs to compare."""
    output:
        "results/{study}/artefacts/study.yaml",
    log:
        "results/{study}/logs/settle.log",
    benchmark:
        "results/{study}/timings/settle.jsonl"
    wildcard_constraints:
        study=any_of(THEORY | LIKELIHOOD),
    resources:
        mem_mb=growing("resources/settle/mem_mb"),
        runtime=growing("resources/settle/runtime"),
    params:
        settings=setting("{study}"),
    script:
        "../workflow/scripts/settle.py"
