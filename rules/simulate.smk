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
        mem_mb=plan.growing("mem_mb"),
        runtime=plan.growing("runtime"),
    params:
        settings=plan.simulation,
        code=plan.code(provenance.SIMULATION),
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
        study=plan.pattern([*plan.theory, *plan.likelihood]),
    resources:
        mem_mb=plan.growing(1000),
        runtime=plan.growing(5),
    params:
        settings=plan.setting(""),
    script:
        "../workflow/scripts/settle.py"
