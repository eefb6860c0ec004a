# Input: only the configuration. Outputs: the results of the theory studies, as tidy tables that the figures and tables show.


rule simulate:
    """Run one experiment on the stochastic process, or compare one bound with the quantity that it bounds."""
    output:
        frame="results/{study}/artefacts/simulation/{experiment}.parquet",
    resources:
        **growing("{study}"),
    params:
        **raised("simulation"),
        settings=experiments,
    script:
        "../workflow/scripts/simulate.py"


rule settle:
    """Write the resolved settings of a study without training runs."""
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
