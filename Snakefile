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


localrules:
    all,
    models,
    rows,
    figures,
    tables,
    likelihood,
    figures_bcl,
    figures_theory,
    tables_theory,
    figures_ssd,
    tables_ssd,
    figures_reco,
    tables_reco,


# Everything that the configuration asks for, and the page that shows it.
rule all:
    default_target: True
    input:
        "results/index.html",
        drawn("figures", STUDIES),
        drawn("tables", STUDIES),
        each_corpus("results/{study}/text/{corpus}/eta.parquet"),


rule models:
    """Trained encoders only."""
    input:
        each_block("results/{study}/manifests/{dataset}/{objective}/{block}.json"),


rule rows:
    """Evaluations only."""
    input:
        collect("results/{study}/artefacts/rows.parquet", study=TRAINED),


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
        each_corpus("results/{study}/text/{corpus}/eta.parquet"),
        drawn("figures", LIKELIHOOD),
        drawn("tables", LIKELIHOOD),


rule figures_bcl:
    """The BCL paper's simulations, and what goes beyond them."""
    input:
        drawn("figures", THEORY, catalogue.BCL_FIGURES),


rule figures_theory:
    """Every simulation, and every bound beside what it bounds."""
    input:
        drawn("figures", THEORY),


rule tables_theory:
    """The numbers of the simulations and bounds."""
    input:
        drawn("tables", THEORY),


rule figures_ssd:
    """Sample-Specific Debiasing's Fig. 3, and what belongs to it."""
    input:
        drawn("figures", IMAGE_TEXT, catalogue.SSD_FIGURES),


rule tables_ssd:
    """Sample-Specific Debiasing's Tables 1, 3, 4 and 5."""
    input:
        drawn("tables", IMAGE_TEXT, catalogue.SSD_TABLES),


rule figures_reco:
    """ReCo's Figs. 4, 5 and 6."""
    input:
        drawn("figures", IMAGE_TEXT, catalogue.RECO_FIGURES),


rule tables_reco:
    """ReCo's Tables 1, 2 and 3."""
    input:
        drawn("tables", IMAGE_TEXT, catalogue.RECO_TABLES),


onstart:
    # Snakemake 9.27 starts a timer in each round of scheduling to keep its limit of jobs per second, which is meant for clusters. While
    # jobs wait, every finished job adds one more round per second: after 366 of 1,210 local jobs Snakemake itself had used 13 minutes of CPU time.
    if workflow.local_exec:
        workflow.scheduler.job_rate_limiter = None


onsuccess:
    print(stale_message(), end="")
