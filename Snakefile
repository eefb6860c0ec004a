# TrueNeg: from images to trained encoders, evaluations, figures, tables and one page.
#
#     sources ─ subsets ─ train ─ evaluate ─ compare ─ figures, tables ─ page
#                                          simulate ─╯
#     reports ─ sentences ─ language models ─ score ─ eta, assumption ─╯
#
# Every file is named results/<study>/<stage>/<dataset>/<objective>/<block of seeds>; trained models live in results/runs.

from snakemake.utils import min_version

min_version("9.27")


report: "workflow/captions/workflow.rst"


include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"
include: "rules/simulate.smk"
include: "rules/likelihood.smk"
include: "rules/figures.smk"
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


# Everything that the configuration asks for, and the page that shows it.
rule all:
    default_target: True
    input:
        "results/index.html",
        plan.figures(),
        plan.tables(),
        plan.of_corpora("results/{study}/text/{corpus}/eta.parquet"),


rule models:
    """Trained encoders only."""
    input:
        plan.of_block("results/{study}/manifests/{dataset}/{objective}/{block}.json"),


rule rows:
    """Evaluations only."""
    input:
        collect("results/{study}/artefacts/rows.parquet", study=plan.images),


rule figures:
    """Every figure; needs only rows and artefacts, on any machine."""
    input:
        plan.figures(),


rule tables:
    """Every table; needs only rows and artefacts, on any machine."""
    input:
        plan.tables(),


rule likelihood:
    """Class probabilities of every sentence, and whether likelihood tells them."""
    input:
        plan.of_corpora("results/{study}/text/{corpus}/eta.parquet"),
        plan.figures(plan.likelihood),
        plan.tables(plan.likelihood),


rule figures_bcl:
    """The BCL paper's simulations, and what goes beyond them."""
    input:
        plan.figures(plan.theory, catalogue.BCL_FIGURES),


rule figures_theory:
    """Every simulation, and every bound beside what it bounds."""
    input:
        plan.figures(plan.theory),


rule tables_theory:
    """The numbers of the simulations and bounds."""
    input:
        plan.tables(plan.theory),


onsuccess:
    print(stale_message(RunStore("results/runs")), end="")
