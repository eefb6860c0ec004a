# Needs nothing but the configuration.  Makes the experiments of the theory studies: tidy frames that figures and tables draw.


rule simulate:
    """One experiment on the stochastic process, or one bound beside what it bounds."""
    output:
        frame="results/{study}/artefacts/simulation/{experiment}.parquet",
        code="results/{study}/artefacts/simulation/{experiment}.code",
    resources:
        **growing("{study}"),
    params:
        settings=experiments,
        code=when_planned(provenance.fingerprint, provenance.SIMULATION),
    script:
        "../workflow/scripts/simulate.py"


rule settle:
    """Write down the resolved settings of a study that has no runs to compare."""
    output:
        "results/{study}/artefacts/study.yaml",
    wildcard_constraints:
        study=any_of({*THEORY, *corpora.studies}),
    resources:
        **growing("resources/settle"),
    params:
        settings=setting("{study}"),
    script:
        "../workflow/scripts/settle.py"
