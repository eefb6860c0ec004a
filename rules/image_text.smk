# Needs the reports of a likelihood study, their sentences, classes and class probabilities.  Makes images with sentences, splits by patient, and
# what is measured on the networks that rule train made: rows, curves and records as for images; similarities, heatmaps, η by class.


rule phantom_pairs:
    """Draw the radiographs of synthetic reports, and join them with the reports' sentences."""
    input:
        unpack(plan.joined),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
        boxes="results/pairs/{pairs}-boxes.parquet",
    log:
        "results/pairs/logs/{pairs}.log",
    benchmark:
        "results/pairs/timings/{pairs}.jsonl"
    wildcard_constraints:
        pairs="phantom-[0-9]+px-[0-9a-f]+",
    priority: 10
    threads: 2
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        settings=plan.joining,
        seed=plan.reports_seed,
    script:
        "../workflow/scripts/phantom_pairs.py"


rule open_i_pairs:
    """Decode Open-I's radiographs once, and join them with their reports' sentences."""
    input:
        unpack(plan.joined),
    output:
        pairs="results/pairs/{pairs}.npz",
        sentences="results/pairs/{pairs}.parquet",
        classes="results/pairs/{pairs}-classes.parquet",
    log:
        "results/pairs/logs/{pairs}.log",
    benchmark:
        "results/pairs/timings/{pairs}.jsonl"
    wildcard_constraints:
        pairs="open_i-[0-9]+px-[0-9a-f]+",
    priority: 10
    threads: 2
    resources:
        mem_mb=4000,
        runtime=120,
    params:
        settings=plan.joining,
        archive=plan.archive,
        cache="results/pairs/cache/{pairs}",
    script:
        "../workflow/scripts/open_i_pairs.py"


rule pair_subsets:
    """Split the patients of every seed of a block."""
    input:
        source=plan.source,
    output:
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
    log:
        "results/{study}/logs/subsets/{dataset}/{block}.log",
    benchmark:
        "results/{study}/timings/subsets/{dataset}/{block}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.image_text),
    priority: 10
    resources:
        mem_mb=4000,
        runtime=10,
    params:
        settings=plan.dataset,
        seeds=plan.seeds,
    script:
        "../workflow/scripts/pair_subsets.py"


rule evaluate_image_text:
    """Zero-shot classification, grounding, retrieval and linear evaluation of the networks of a block."""
    input:
        source=plan.source,
        boxes=plan.boxes,
        subsets="results/{study}/subsets/{dataset}/{block}.parquet",
        manifest="results/{study}/manifests/{dataset}/{objective}/{block}.json",
    output:
        rows="results/{study}/rows/{dataset}/{objective}/{block}.parquet",
        curves="results/{study}/artefacts/curves/{dataset}/{objective}/{block}.parquet",
        runs="results/{study}/artefacts/runs/{dataset}/{objective}/{block}.json",
    log:
        "results/{study}/logs/evaluate/{dataset}/{objective}/{block}.log",
    benchmark:
        "results/{study}/timings/evaluate/{dataset}/{objective}/{block}.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.image_text),
    threads: lookup(dpath="{study}/evaluation/threads", within=plan.settings)
    resources:
        gpu=lookup(dpath="{study}/evaluation/gpu", within=plan.settings),
        mem_mb=lookup(dpath="{study}/evaluation/mem_mb", within=plan.settings),
        runtime=lookup(dpath="{study}/evaluation/runtime", within=plan.settings),
    params:
        settings=lookup(dpath="{study}/evaluation", within=plan.settings),
        device=lookup(dpath="{study}/training/device", within=plan.settings),
        store="results/runs",
    script:
        "../workflow/scripts/evaluate_image_text.py"


rule pair_pictures:
    """Similarities of pairs, and heatmaps of phrases, under the first seed's networks."""
    input:
        source=plan.source,
        boxes=plan.boxes,
        subsets=plan.first_subsets,
        manifest=plan.first_manifest,
    output:
        similarities="results/{study}/artefacts/similarities/{dataset}/{objective}.parquet",
        overlays="results/{study}/artefacts/overlays/{dataset}/{objective}.parquet",
    log:
        "results/{study}/logs/pictures/{dataset}/{objective}.log",
    benchmark:
        "results/{study}/timings/pictures/{dataset}/{objective}.jsonl"
    threads: lookup(dpath="{study}/evaluation/threads", within=plan.settings)
    resources:
        gpu=lookup(dpath="{study}/evaluation/gpu", within=plan.settings),
        mem_mb=lookup(dpath="{study}/evaluation/mem_mb", within=plan.settings),
        runtime=lookup(dpath="{study}/evaluation/runtime", within=plan.settings),
    params:
        settings=lookup(dpath="{study}/evaluation", within=plan.settings),
        phrases=plan.phrases,
        device=lookup(dpath="{study}/training/device", within=plan.settings),
        store="results/runs",
    script:
        "../workflow/scripts/pair_pictures.py"


rule eta_by_class:
    """Class probabilities from likelihoods, by latent class, beside the known ones."""
    input:
        sentences=plan.first_sentences,
        classes=plan.classes,
    output:
        table="results/{study}/artefacts/class_probabilities.parquet",
    log:
        "results/{study}/logs/class_probabilities.log",
    benchmark:
        "results/{study}/timings/class_probabilities.jsonl"
    wildcard_constraints:
        study=plan.pattern(plan.image_text),
    resources:
        mem_mb=2000,
        runtime=10,
    script:
        "../workflow/scripts/eta_by_class.py"
