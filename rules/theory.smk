# Input: only the configuration. Outputs: the results of the theory studies, as tidy tables that the
# figures and tables show.


rule simulate:
    """Run one experiment on the stochastic process, or compare a bound with what it bounds."""
    output:
        frame="results/{study}/artefacts/simulation/{experiment}.parquet",
    log:
        "results/{study}/logs/simulate/{experiment}.log",
    benchmark:
        "results/{study}/timings/simulate/{experiment}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("{study}"),
    params:
        **versions.version_parameter("simulation"),
        settings=lambda job: config[job.study]["process"] | config[job.study]["sweeps"],
    script:
        "../workflow/scripts/simulate.py"


rule study_settings:
    """Write the resolved settings of a study without training runs."""
    output:
        "results/{study}/artefacts/study.yaml",
    log:
        "results/{study}/logs/study_settings.log",
    benchmark:
        "results/{study}/timings/study_settings.jsonl"
    wildcard_constraints:
        study=any_of({*THEORY, *corpora.studies}),
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/study_settings"),
    params:
        settings=setting("{study}"),
    script:
        "../workflow/scripts/study_settings.py"
