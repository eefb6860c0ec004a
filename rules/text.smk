# Inputs: reports (synthetic, from Open-I or MIMIC-CXR, or from a table) or captions. Outputs:
# sentences, their likelihoods under language models that were not trained on their reports, class
# probabilities, and tables that compare the two. What image–text studies need runs first, so that
# this long chain runs beside the training of other studies.


rule phantom_reports:
    """Draw synthetic reports with known latent classes."""
    output:
        reports="results/{study}/text/{corpus}/reports.parquet",
        assigned="results/{study}/text/{corpus}/assigned.parquet",
        classes="results/{study}/text/{corpus}/classes.parquet",
    log:
        "results/{study}/logs/phantom_reports/{corpus}.log",
    benchmark:
        "results/{study}/timings/phantom_reports/{corpus}.jsonl"
    wildcard_constraints:
        study=any_of(corpora.of("phantom")),
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/phantom_reports"),
    params:
        **versions.version_parameter("reports/phantom"),
        settings=data_inputs.settings("{study}/text/{corpus}/reports"),
        seed=setting("{study}/seed"),
    script:
        "../workflow/scripts/phantom_reports.py"


rule reports:
    """Read the reports of a source, and record why any are left out."""
    output:
        reports="results/{study}/text/{corpus}/reports.parquet",
    log:
        "results/{study}/logs/reports/{corpus}.log",
    benchmark:
        "results/{study}/timings/reports/{corpus}.jsonl"
    wildcard_constraints:
        study=any_of(corpora.studies.keys() - corpora.captioned - corpora.of("phantom")),
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/reports"),
    params:
        **data_inputs.parameters("{study}/text/{corpus}/reports"),
    script:
        "../workflow/scripts/reports.py"


rule sentences:
    """Split the reports into sentences; texts that were split before are read from the cache."""
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
        study=any_of(corpora.studies.keys() - corpora.captioned),
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/processes")
    resources:
        **growing("resources/sentences"),
    params:
        **versions.version_parameter("splitter"),
        cache="results/{study}/text/cache/sentences",
    script:
        "../workflow/scripts/sentences.py"


rule captions:
    """Write captions as sentences; the texts of the user's own images are split like reports."""
    output:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        unique="results/{study}/text/{corpus}/unique.parquet",
    log:
        "results/{study}/logs/captions/{corpus}.log",
    benchmark:
        "results/{study}/timings/captions/{corpus}.jsonl"
    wildcard_constraints:
        study=any_of(corpora.captioned),
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/processes")
    resources:
        **growing("resources/captions"),
    params:
        **versions.version_parameter("splitter"),
        **data_inputs.parameters("{study}/text/{corpus}/reports"),
        cache="results/{study}/text/cache/sentences",
    script:
        "../workflow/scripts/captions.py"


rule open_i_classes:
    """Assign classes to the sentences of Open-I from the expert codes of their reports."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
    output:
        assigned="results/{study}/text/{corpus}/assigned.parquet",
        classes="results/{study}/text/{corpus}/classes.parquet",
    log:
        "results/{study}/logs/open_i_classes/{corpus}.log",
    benchmark:
        "results/{study}/timings/open_i_classes/{corpus}.jsonl"
    wildcard_constraints:
        study=any_of(corpora.of("open_i")),
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/open_i_classes"),
    params:
        settings=data_inputs.settings("{study}/text/{corpus}/reports"),
    script:
        "../workflow/scripts/open_i_classes.py"


rule language_model:
    """Train a language model per fold, or use one as released; finished ones are reused."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        start=corpora.initial_models,
    output:
        manifest="results/{study}/text/{corpus}/language_models/{model}.json",
    log:
        "results/{study}/logs/language_model/{corpus}/{model}.log",
    benchmark:
        "results/{study}/timings/language_model/{corpus}/{model}.jsonl"
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/language_models/{model}/threads")
    resources:
        **growing("{study}/scoring", corpora.training_gpus),
    params:
        **versions.version_parameter("language_model"),
        settings=corpora.with_files(setting("{study}/language_models/{model}")),
        seed=setting("{study}/seed"),
        store="results/language_models",
    script:
        "../workflow/scripts/language_model.py"


rule score:
    """Compute the pseudo-log-likelihood of every sentence; earlier scores are cached."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        models=corpora.scoring_models,
        shards=corpora.shards,
    output:
        likelihoods="results/{study}/text/{corpus}/likelihoods/{model}.parquet",
    log:
        "results/{study}/logs/score/{corpus}/{model}.log",
    benchmark:
        "results/{study}/timings/score/{corpus}/{model}.jsonl"
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    threads: setting("{study}/scoring/threads")
    resources:
        **growing("{study}/scoring", corpora.scoring_gpus),
    params:
        **versions.version_parameter("likelihoods"),
        settings=corpora.scoring,
        cache="results/{study}/text/cache/likelihoods",
    script:
        "../workflow/scripts/score.py"


# Score one shard of the sentences and write the scores to the cache: one job per GPU.
use rule score as score_shard with:
    output:
        touch("results/{study}/text/{corpus}/likelihoods/{model}-{shard}.done"),
    log:
        "results/{study}/logs/score_shard/{corpus}/{model}/{shard}.log",
    benchmark:
        "results/{study}/timings/score_shard/{corpus}/{model}/{shard}.jsonl"


rule eta:
    """Compute class probabilities and three controls: permuted, constant, by text length."""
    input:
        likelihoods=corpora.eta_likelihoods,
    output:
        eta="results/{study}/text/{corpus}/eta.parquet",
    log:
        "results/{study}/logs/eta/{corpus}.log",
    benchmark:
        "results/{study}/timings/eta/{corpus}.jsonl"
    priority: BEFORE_TRAINING
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/eta"),
    params:
        **versions.version_parameter("class_probability"),
        settings=setting("{study}/eta"),
        seed=setting("{study}/seed"),
    script:
        "../workflow/scripts/eta.py"


rule assumption:
    """Compare likelihoods with class probabilities, for language models and for simpler scorers."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        assigned="results/{study}/text/{corpus}/assigned.parquet",
        classes="results/{study}/text/{corpus}/classes.parquet",
        likelihoods=corpora.likelihoods,
    output:
        points="results/{study}/artefacts/assumption/{corpus}/points.parquet",
        summary="results/{study}/artefacts/assumption/{corpus}/summary.parquet",
        calibration="results/{study}/artefacts/assumption/{corpus}/calibration.parquet",
    log:
        "results/{study}/logs/assumption/{corpus}.log",
    benchmark:
        "results/{study}/timings/assumption/{corpus}.jsonl"
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/assumption"),
    params:
        folds=corpora.folds,
        seed=setting("{study}/seed"),
    script:
        "../workflow/scripts/assumption.py"
