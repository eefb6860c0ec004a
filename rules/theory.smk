# Input: only the configuration. Outputs: tidy tables of the experiments of studies without training.


rule simulate:
    """Compute one experiment of a study without training, such as the error of an estimator."""
    output:
        frame="results/{study}/artefacts/simulation/{experiment}.parquet",
    log:
        "results/{study}/logs/simulate/{experiment}.log",
    benchmark:
        "results/{study}/timings/simulate/{experiment}.jsonl"
    wildcard_constraints:
        study=any_of(configuration.computed),
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("{study}"),
    params:
        **versions.version_parameter("simulation"),
        settings=lookup("{study}", within=experiments),
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
        study=any_of({*configuration.computed, *corpora.studies}),
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/study_settings"),
    params:
        settings=setting("{study}"),
    script:
        "../workflow/scripts/study_settings.py"
