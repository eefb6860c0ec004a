# Inputs: reports (synthetic, from Open-I or MIMIC-CXR, or from a table) or captions. Outputs: sentences, their likelihoods under language
# models that were not trained on their reports, class probabilities, and tables that compare the two. Split sentences, trained models and
# scores are reused.
# The steps that image–text studies need run first, so that this long chain runs in parallel with the training of other studies.


rule phantom_reports:
    """Draw synthetic reports with known latent classes."""
    output:
        reports="results/{study}/text/{corpus}/reports.parquet",
        assigned="results/{study}/text/{corpus}/assigned.parquet",
        classes="results/{study}/text/{corpus}/classes.parquet",
    wildcard_constraints:
        study=any_of(corpora.of("phantom")),
    priority: BEFORE_TRAINING
    resources:
        **growing("resources/phantom_reports"),
    params:
        **raised("reports/phantom"),
        settings=readings.settings("{study}/text/{corpus}/reports"),
        seed=setting("{study}/seed"),
    script:
        "../workflow/scripts/phantom_reports.py"


rule reports:
    """Read the reports of a source, and record why any are left out."""
    output:
        reports="results/{study}/text/{corpus}/reports.parquet",
    wildcard_constraints:
        study=any_of(corpora.studies.keys() - corpora.captioned - corpora.of("phantom")),
    priority: BEFORE_TRAINING
    resources:
        **growing("resources/reports"),
    params:
        **readings.parameters("{study}/text/{corpus}/reports"),
    script:
        "../workflow/scripts/reports.py"


rule sentences:
    """Split the reports into sentences; texts that were split before are read from the cache."""
    input:
        reports="results/{study}/text/{corpus}/reports.parquet",
    output:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        unique="results/{study}/text/{corpus}/unique.parquet",
    wildcard_constraints:
        study=any_of(corpora.studies.keys() - corpora.captioned),
    priority: BEFORE_TRAINING
    threads: setting("{study}/processes")
    resources:
        **growing("resources/sentences"),
    params:
        **raised("splitter"),
        cache="results/{study}/text/cache/sentences",
    script:
        "../workflow/scripts/sentences.py"


# Captions are already sentences; the texts of the user's own images are split like reports.
use rule sentences as captions with:
    input:
        [],
    wildcard_constraints:
        study=any_of(corpora.captioned),
    resources:
        **growing("resources/captions"),
    params:
        **readings.parameters("{study}/text/{corpus}/reports"),


rule open_i_classes:
    """Assign classes to the sentences of Open-I from the expert codes of their reports."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
    output:
        assigned="results/{study}/text/{corpus}/assigned.parquet",
        classes="results/{study}/text/{corpus}/classes.parquet",
    wildcard_constraints:
        study=any_of(corpora.of("open_i")),
    resources:
        **growing("resources/open_i_classes"),
    params:
        settings=readings.settings("{study}/text/{corpus}/reports"),
    script:
        "../workflow/scripts/open_i_classes.py"


rule language_model:
    """Train a language model per fold of the reports, or use one as released; finished models are reused from the store."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        start=corpora.initial_models,
    output:
        manifest="results/{study}/text/{corpus}/language_models/{model}.json",
    priority: BEFORE_TRAINING
    threads: setting("{study}/language_models/{model}/threads")
    resources:
        **growing("{study}/scoring", corpora.training_gpus),
    params:
        **raised("language_model"),
        settings=setting("{study}/language_models/{model}"),
        seed=setting("{study}/seed"),
        store="results/language_models",
    script:
        "../workflow/scripts/language_model.py"


rule score:
    """Compute the pseudo-log-likelihood of every sentence; earlier scores are read from the cache."""
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        models=corpora.scoring_models,
        shards=corpora.shards,
    output:
        likelihoods="results/{study}/text/{corpus}/likelihoods/{model}.parquet",
    priority: BEFORE_TRAINING
    threads: setting("{study}/scoring/threads")
    resources:
        **growing("{study}/scoring", corpora.scoring_gpus),
    params:
        **raised("likelihoods"),
        settings=corpora.scoring,
        cache="results/{study}/text/cache/likelihoods",
    script:
        "../workflow/scripts/score.py"


# Score one shard of the sentences and write the scores to the cache: one job per GPU.
use rule score as score_shard with:
    input:
        sentences="results/{study}/text/{corpus}/sentences.parquet",
        models=corpora.scoring_models,
    output:
        touch("results/{study}/text/{corpus}/likelihoods/{model}-{shard}.done"),


rule eta:
    """Compute class probabilities from likelihoods, and three controls: permuted, constant and by text length."""
    input:
        likelihoods=corpora.eta_likelihoods,
    output:
        eta="results/{study}/text/{corpus}/eta.parquet",
    priority: BEFORE_TRAINING
    resources:
        **growing("resources/eta"),
    params:
        **raised("class_probability"),
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
    resources:
        **growing("resources/assumption"),
    params:
        folds=corpora.folds,
        seed=setting("{study}/seed"),
    script:
        "../workflow/scripts/assumption.py"
