# TrueNeg: from images to trained encoders, evaluations, figures, tables and one page.
#
#     sources ─ subsets ─ train ─ evaluate ─ compare ─ figures, tables ─ page
#     pairs ────╯                          simulate ─╯
#       ╰───────────────────────────────────╮
#     reports ─ sentences ─ language models ─ score ─ eta, assumption ─ figures, tables
#
# Outputs: results/<study>/<stage>/<dataset>/<objective>/<block of seeds>; models: results/runs.

from snakemake.utils import min_version

min_version("9.27")


report: "workflow/captions/workflow.rst"


include: "rules/common.smk"


container: None if " " in IMAGE else IMAGE


include: "rules/data.smk"
include: "rules/text.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"
include: "rules/theory.smk"
include: "rules/report.smk"


# The files of every block: Snakemake does not look for missing inputs of files that exist, and
# deletes those of a failed job.
BLOCKS = trainings.each_block(rules.train.output.manifest, *rules.evaluate.output)
ETA = corpora.each_corpus(rules.eta.output.eta, corpora.studies)


# All results of the configuration, and the page that shows them.
rule all:
    default_target: True
    input:
        BLOCKS,
        "results/index.html",
        drawn(STUDIES),
        # unless a study names the texts, but no objective uses their likelihoods
        corpora.each_corpus(rules.eta.output.eta, corpora.wanted),
    message:  # without the list of all inputs, here and in rules that gather
        "All results of the configuration"


for target, wanted in {
    # Train the encoders only.
    "models": trainings.each_block(rules.train.output.manifest),
    # Train and evaluate the encoders; draw nothing.
    "rows": [*BLOCKS, *collect("results/{study}/artefacts/rows.parquet", study=trainings.studies)],
    # All figures, or all tables; they need only rows and artefacts, so any machine can draw them.
    "figures": drawn(STUDIES, ["figures"]),
    "tables": drawn(STUDIES, ["tables"]),
    # The class probabilities of all sentences, and their comparison with likelihoods.
    "likelihood": [*ETA, *drawn(corpora.studies)],
    # All figures, or all tables, of simulations and bounds.
    "figures_theory": drawn(configuration.computed, ["figures"]),
    "tables_theory": drawn(configuration.computed, ["tables"]),
}.items():

    rule:
        name:
            target
        input:
            wanted,
        message:
            f"All files of {target}"


onstart:
    require_whole_outputs(workflow)
    record_owner()
    # Snakemake 9.27 starts a timer in each round of scheduling (job_scheduler.py), which only
    # clusters need: while jobs wait, each finished job adds a round per second (13 min of CPU time
    # in 366 jobs). Not reported; https://github.com/snakemake/snakemake/pull/3744 is close.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    store = RunStore("results/runs")
    print(versions.stale_note(store.records(), store.path), end="")
    planned = {str(file) for job in workflow.dag.jobs for file in job.output}
    print(findings.report("results", STUDIES, planned), end="")
