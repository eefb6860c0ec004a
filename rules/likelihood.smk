# Needs reports (synthetic ones, Open-I's, MIMIC-CXR's, or a table) or captions.  Makes sentences, their likelihoods under language models that have not
# seen their reports, class probabilities, and tables on whether the one tells the other. What was split, trained or scored once is kept.
# What image–text studies wait for goes first, so that its one long chain runs beside other studies' training.


TEXT = "results/{study}/text/{corpus}"


rule phantom_reports:
    """Draw synthetic reports whose latent classes are known."""
    output:
        reports=f"{TEXT}/reports.parquet",
        assigned=f"{TEXT}/assigned.parquet",
        classes=f"{TEXT}/classes.parquet",
    log:
        "results/{study}/logs/reports/{corpus}.log",
    benchmark:
        "results/{study}/timings/reports/{corpus}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.of_source("phantom")),
    priority: 10
    resources:
        mem_mb=plan.growing(2000),
        runtime=plan.growing(30),
    params:
        settings=plan.reading_reports,
        seed=plan.setting("seed"),
    script:
        "../workflow/scripts/phantom_reports.py"


rule reports:
    """Read a source's reports, and account for each."""
    output:
        reports=f"{TEXT}/reports.parquet",
    log:
        "results/{study}/logs/reports/{corpus}.log",
    benchmark:
        "results/{study}/timings/reports/{corpus}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.of_source("open_i", "mimic_cxr", "table")),
    priority: 10
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(60),
    params:
        settings=plan.reading_reports,
        files=plan.files,
    script:
        "../workflow/scripts/reports.py"


rule sentences:
    """Split the reports into sentences; texts that were split before come from the cache."""
    input:
        reports=f"{TEXT}/reports.parquet",
    output:
        sentences=f"{TEXT}/sentences.parquet",
        unique=f"{TEXT}/unique.parquet",
    log:
        "results/{study}/logs/sentences/{corpus}.log",
    benchmark:
        "results/{study}/timings/sentences/{corpus}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.of_source("phantom", "open_i", "mimic_cxr", "table")),
    priority: 10
    threads: plan.setting("processes")
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(240),
    params:
        cache="results/{study}/text/cache/sentences",
    script:
        "../workflow/scripts/sentences.py"


rule captions:
    """Take captions as sentences, or split the texts of own images into sentences."""
    output:
        sentences=f"{TEXT}/sentences.parquet",
        unique=f"{TEXT}/unique.parquet",
    log:
        "results/{study}/logs/sentences/{corpus}.log",
    benchmark:
        "results/{study}/timings/sentences/{corpus}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.of_source("flickr8k", "flickr30k", "image_table")),
    priority: 10
    threads: plan.setting("processes")
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(60),
    params:
        settings=plan.reading_reports,
        files=plan.files,
        cache="results/{study}/text/cache/sentences",
    script:
        "../workflow/scripts/captions.py"


rule open_i_classes:
    """Give the sentences of Open-I classes from the expert codes of their reports."""
    input:
        sentences=f"{TEXT}/sentences.parquet",
    output:
        assigned=f"{TEXT}/assigned.parquet",
        classes=f"{TEXT}/classes.parquet",
    log:
        "results/{study}/logs/classes/{corpus}.log",
    benchmark:
        "results/{study}/timings/classes/{corpus}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.of_source("open_i")),
    resources:
        mem_mb=plan.growing(2000),
        runtime=plan.growing(10),
    params:
        settings=plan.reading_reports,
    script:
        "../workflow/scripts/open_i_classes.py"


rule language_model:
    """Train a language model for each fold of the reports, or take one as it is; finished ones come from the store."""
    input:
        sentences=f"{TEXT}/sentences.parquet",
        start=plan.beginning,
    output:
        manifest=f"{TEXT}/language_models/{{model}}.json",
    log:
        "results/{study}/logs/language_models/{corpus}/{model}.log",
    benchmark:
        "results/{study}/timings/language_models/{corpus}/{model}.jsonl"
    priority: 10
    threads: plan.setting("language_models/{model}/threads")
    resources:
        gpu=plan.setting("scoring/gpu"),
        mem_mb=plan.growing("scoring/mem_mb"),
        runtime=plan.growing("scoring/runtime"),
    params:
        settings=plan.language_model,
        seed=plan.setting("seed"),
        store="results/language_models",
    script:
        "../workflow/scripts/language_model.py"


rule score_shard:
    """Score a part of the sentences into the cache: one job a GPU."""
    input:
        sentences=f"{TEXT}/sentences.parquet",
        models=plan.language_models,
    output:
        touch(f"{TEXT}/likelihoods/{{model}}-{{shard}}.done"),
    log:
        "results/{study}/logs/score/{corpus}/{model}-{shard}.log",
    benchmark:
        "results/{study}/timings/score/{corpus}/{model}-{shard}.jsonl"
    wildcard_constraints:
        shard="[0-9]+",
    priority: 10
    threads: plan.setting("scoring/threads")
    resources:
        gpu=plan.setting("scoring/gpu"),
        mem_mb=plan.growing("scoring/mem_mb"),
        runtime=plan.growing("scoring/runtime"),
    params:
        settings=plan.scoring,
        cache="results/{study}/text/cache/likelihoods",
    script:
        "../workflow/scripts/score_shard.py"


rule score:
    """Pseudo-log-likelihood of every sentence; what was scored before comes from the cache."""
    input:
        sentences=f"{TEXT}/sentences.parquet",
        models=plan.language_models,
        shards=plan.shards,
    output:
        likelihoods=f"{TEXT}/likelihoods/{{model}}.parquet",
    log:
        "results/{study}/logs/score/{corpus}/{model}.log",
    benchmark:
        "results/{study}/timings/score/{corpus}/{model}.jsonl"
    priority: 10
    threads: plan.setting("scoring/threads")
    resources:
        gpu=plan.setting("scoring/gpu"),
        mem_mb=plan.growing("scoring/mem_mb"),
        runtime=plan.growing("scoring/runtime"),
    params:
        settings=plan.scoring,
        cache="results/{study}/text/cache/likelihoods",
    script:
        "../workflow/scripts/score.py"


rule eta:
    """Class probabilities from likelihoods, and the controls that text alone gives."""
    input:
        likelihoods=plan.likelihoods_of_eta,
    output:
        eta=f"{TEXT}/eta.parquet",
    log:
        "results/{study}/logs/eta/{corpus}.log",
    benchmark:
        "results/{study}/timings/eta/{corpus}.jsonl"
    priority: 10
    resources:
        mem_mb=plan.growing(2000),
        runtime=plan.growing(10),
    params:
        settings=plan.setting("eta"),
        seed=plan.setting("seed"),
    script:
        "../workflow/scripts/eta.py"


rule assumption:
    """Compare likelihoods with class probabilities, for language models and for what is simpler."""
    input:
        sentences=f"{TEXT}/sentences.parquet",
        assigned=f"{TEXT}/assigned.parquet",
        classes=f"{TEXT}/classes.parquet",
        likelihoods=plan.likelihoods,
    output:
        points="results/{study}/artefacts/assumption/{corpus}/points.parquet",
        summary="results/{study}/artefacts/assumption/{corpus}/summary.parquet",
        calibration="results/{study}/artefacts/assumption/{corpus}/calibration.parquet",
    log:
        "results/{study}/logs/assumption/{corpus}.log",
    benchmark:
        "results/{study}/timings/assumption/{corpus}.jsonl"
    resources:
        mem_mb=plan.growing(4000),
        runtime=plan.growing(30),
    params:
        folds=plan.folds,
        seed=plan.setting("seed"),
    script:
        "../workflow/scripts/assumption.py"
