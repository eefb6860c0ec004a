# TrueNeg: from images to trained encoders, evaluations, figures, tables and one page.
#
#     sources ─ subsets ─ train ─ evaluate ─ compare ─ figures, tables ─ page
#     pairs ────╯                          simulate ─╯
#       ╰───────────────────────────────────╮
#     reports ─ sentences ─ language models ─ score ─ eta, assumption ─ figures, tables
#
# Every file is named results/<study>/<stage>/<dataset>/<objective>/<block of seeds>; trained models live in results/runs.

from snakemake.utils import min_version

min_version("9.27")


report: "workflow/captions/workflow.rst"


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/text.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"
include: "rules/theory.smk"
include: "rules/report.smk"


# The log of a job, and its time and memory, are named after its rule and its wildcards.
for step in workflow.rules:
    if step.output:
        pattern, *_ = getattr(rules, step.name).output
        folder = re.match("results(/[^/]+(?=/))?", pattern)[0]
        names = re.findall(r"{\w+}", pattern.removeprefix(folder))
        place = "/".join([step.name, *names])
        step.log_modifier = step.benchmark_modifier = step.output_modifier
        step.set_log(f"{folder}/logs/{place}.log")
        step.benchmark = f"{folder}/timings/{place}.jsonl"


# Everything that the configuration asks for, and the page that shows it.
rule all:
    default_target: True
    input:
        "results/index.html",
        drawn("figures", STUDIES),
        drawn("tables", STUDIES),
        corpora.each_corpus("results/{study}/text/{corpus}/eta.parquet"),


rule models:
    """Trained encoders only."""
    input:
        trainings.each_block(rules.train.output.manifest),


rule rows:
    """Evaluations only."""
    input:
        collect("results/{study}/artefacts/rows.parquet", study=trainings.studies),


rule figures:
    """Every figure; needs only rows and artefacts, on any machine."""
    input:
        drawn("figures", STUDIES),


rule tables:
    """Every table; needs only rows and artefacts, on any machine."""
    input:
        drawn("tables", STUDIES),


rule likelihood:
    """Class probabilities of every sentence, and whether likelihood tells them."""
    input:
        corpora.each_corpus("results/{study}/text/{corpus}/eta.parquet"),
        drawn("figures", corpora.studies),
        drawn("tables", corpora.studies),


for target, wanted in {
    # The BCL paper's simulations, and what goes beyond them.
    "figures_bcl": drawn("figures", THEORY, catalogue.BCL_FIGURES),
    # Every simulation, and every bound beside what it bounds.
    "figures_theory": drawn("figures", THEORY),
    # The numbers of the simulations and bounds.
    "tables_theory": drawn("tables", THEORY),
    # Sample-Specific Debiasing's Fig. 3, and what belongs to it.
    "figures_ssd": drawn("figures", trainings.image_text, catalogue.SSD_FIGURES),
    # Sample-Specific Debiasing's Tables 1, 3, 4 and 5.
    "tables_ssd": drawn("tables", trainings.image_text, catalogue.SSD_TABLES),
    # ReCo's Figs. 4, 5 and 6.
    "figures_reco": drawn("figures", trainings.image_text, catalogue.RECO_FIGURES),
    # ReCo's Tables 1, 2 and 3.
    "tables_reco": drawn("tables", trainings.image_text, catalogue.RECO_TABLES),
}.items():

    rule:
        name:
            target
        input:
            wanted,


onstart:
    # Snakemake 9.27 starts a timer in each round of scheduling to keep its limit of jobs per second, which is meant for clusters. While
    # jobs wait, every finished job adds one more round per second: after 366 of 1,210 local jobs Snakemake itself had used 13 minutes of CPU time.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    print(provenance.stale_message(RunStore("results/runs")), end="")
