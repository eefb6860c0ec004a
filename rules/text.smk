# Needs reports (synthetic ones, Open-I's, MIMIC-CXR's, or a table) or captions.  Makes sentences, their likelihoods under language models that have not
# seen their reports, class probabilities, and tables on whether the one tells the other. What was split, trained or scored once is kept.
# What image–text studies wait for goes first, so that its one long chain runs beside other studies' training.


rule phantom_reports:
    """Draw synthetic reports whose latent classes are known."""
    output:
        reports="results/{study}/text/{corpus}/reports.parquet",
        assigned="results/{study}/text/{corpus}/assigned.parquet",
        classes="results/{study}/text/{corpus}/classes.parquet",
    log:
        "results/{study}/logs/reports/{corpus}.log",
    benchmark:
        "results/{study}/timings/reports/{corpus}.jsonl"
    wildcard_constraints:
        study=any_of(PHANTOM),
    priority: BEFORE_TRAINING
    resources:
        mem_mb=growing("resources/phantom_reports/mem_mb"),
        runtime=growing("resources/phantom_reports/runtime"),
    params:
        settings=reports_settings,
        seed=setting("{study}/seed"),
    script:
        "../workflow/scripts/phantom_reports.py"


rule reports:
    """Read a source's reports, and account for each."""
    output:
        reports="results/{study}/text/{corpus}/reports.parquet",
    log:
        "results/{study}/logs/reports/{corpus}.log",
    benchmark:
        "results/{study}/timings/reports/{corpus}.jsonl"
    wildcard_constraints:
        study=any_of(LIKELIHOOD.keys() - {*CAPTIONED, *PHANTOM}),
    priority: BEFORE_TRAINING
    resources:
        mem_mb=growing("resources/reports/mem_mb"),
        runtime=growing("resources/reports/runtime"),
    params:
        settings=reports_settings,
        files=report_files,
    script:
        "../workflow/scripts/reports.py"


rule sentences:
    """Split the reports into sentences; texts that were split before come from the cache."""
    input:
        reports="results/{study}/text/{corpus}/reports.parquet",
    output:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        unique="results/{study}/text/{corpus}/unique.parquet",
    log:
        "results/{study}/logs/sentences/{corpus}.log",
    benchmark:
        "results/{study}/timings/sentences/{corpus}.jsonl"
    wildcard_constraints:
        study=any_of(LIKELIHOOD.keys() - CAPTIONED),
    priority: BEFORE_TRAINING
    threads: setting("{study}/processes")
    resources:
        mem_mb=growing("resources/sentences/mem_mb"),
        runtime=growing("resources/sentences/runtime"),
    params:
        cache="results/{study}/text/cache/sentences",
    script:
        "../workflow/scripts/sentences.py"


rule captions:
    """Take captions as sentences, or split the texts of own images into sentences."""
    output:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        unique="results/{study}/text/{corpus}/unique.parquet",
    log:
        "results/{study}/logs/sentences/{corpus}.log",
    benchmark:
        "results/{study}/timings/sentences/{corpus}.jsonl"
    wildcard_constraints:
        study=any_of(CAPTIONED),
    priority: BEFORE_TRAINING
    threads: setting("{study}/processes")
    resources:
        mem_mb=growing("resources/captions/mem_mb"),
        runtime=growing("resources/captions/runtime"),
    params:
        settings=reports_settings,
        files=report_files,
        cache="results/{study}/text/cache/sentences",
    script:
        "../workflow/scripts/captions.py"


rule open_i_classes:
    """Give the sentences of Open-I classes from the expert codes of their reports."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
    output:
        assigned="results/{study}/text/{corpus}/assigned.parquet",
        classes="results/{study}/text/{corpus}/classes.parquet",
    log:
        "results/{study}/logs/classes/{corpus}.log",
    benchmark:
        "results/{study}/timings/classes/{corpus}.jsonl"
    wildcard_constraints:
        study=any_of(OPEN_I),
    resources:
        mem_mb=growing("resources/open_i_classes/mem_mb"),
        runtime=growing("resources/open_i_classes/runtime"),
    params:
        settings=reports_settings,
    script:
        "../workflow/scripts/open_i_classes.py"


rule language_model:
    """Train a language model for each fold of the reports, or take one as it is; finished ones come from the store."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        start=initial_models,
    output:
        manifest="results/{study}/text/{corpus}/language_models/{model}.json",
    log:
        "results/{study}/logs/language_models/{corpus}/{model}.log",
    benchmark:
        "results/{study}/timings/language_models/{corpus}/{model}.jsonl"
    priority: BEFORE_TRAINING
    threads: setting("{study}/language_models/{model}/threads")
    resources:
        gpu=setting("{study}/scoring/gpu"),
        mem_mb=growing("{study}/scoring/mem_mb"),
        runtime=growing("{study}/scoring/runtime"),
    params:
        settings=setting("{study}/language_models/{model}"),
        seed=setting("{study}/seed"),
        store="results/language_models",
    script:
        "../workflow/scripts/language_model.py"


rule score:
    """Pseudo-log-likelihood of every sentence; what was scored before comes from the cache."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        models=scoring_models,
        shards=shards,
    output:
        likelihoods="results/{study}/text/{corpus}/likelihoods/{model}.parquet",
    log:
        "results/{study}/logs/score/{corpus}/{model}.log",
    benchmark:
        "results/{study}/timings/score/{corpus}/{model}.jsonl"
    priority: BEFORE_TRAINING
    threads: setting("{study}/scoring/threads")
    resources:
        gpu=setting("{study}/scoring/gpu"),
        mem_mb=growing("{study}/scoring/mem_mb"),
        runtime=growing("{study}/scoring/runtime"),
    params:
        settings=scoring,
        cache="results/{study}/text/cache/likelihoods",
    script:
        "../workflow/scripts/score.py"


# A part of the sentences, into the cache: one job a GPU.
use rule score as score_shard with:
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        models=scoring_models,
    output:
        touch("results/{study}/text/{corpus}/likelihoods/{model}-{shard}.done"),
    log:
        "results/{study}/logs/score/{corpus}/{model}-{shard}.log",
    benchmark:
        "results/{study}/timings/score/{corpus}/{model}-{shard}.jsonl"
    wildcard_constraints:
        shard="[0-9]+",


rule eta:
    """Class probabilities from likelihoods, and the controls that text alone gives."""
    input:
        likelihoods=likelihoods_of_eta,
    output:
        eta="results/{study}/text/{corpus}/eta.parquet",
    log:
        "results/{study}/logs/eta/{corpus}.log",
    benchmark:
        "results/{study}/timings/eta/{corpus}.jsonl"
    priority: BEFORE_TRAINING
    resources:
        mem_mb=growing("resources/eta/mem_mb"),
        runtime=growing("resources/eta/runtime"),
    params:
        settings=setting("{study}/eta"),
        seed=setting("{study}/seed"),
    script:
        "../workflow/scripts/eta.py"


rule assumption:
    """Compare likelihoods with class probabilities, for language models and for what is simpler."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        assigned="results/{study}/text/{corpus}/assigned.parquet",
        classes="results/{study}/text/{corpus}/classes.parquet",
        likelihoods=likelihoods,
    output:
        points="results/{study}/artefacts/assumption/{corpus}/points.parquet",
        summary="results/{study}/artefacts/assumption/{corpus}/summary.parquet",
        calibration="results/{study}/artefacts/assumption/{corpus}/calibration.parquet",
    log:
        "results/{study}/logs/assumption/{corpus}.log",
    benchmark:
        "results/{study}/timings/assumption/{corpus}.jsonl"
    resources:
        mem_mb=growing("resources/assumption/mem_mb"),
        runtime=growing("resources/assumption/runtime"),
    params:
        folds=folds,
        seed=setting("{study}/seed"),
    script:
        "../workflow/scripts/assumption.py"
