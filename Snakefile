# TrueNeg: from images to trained encoders, evaluations, figures, tables and one page.
#
#     sources ─ subsets ─ train ─ evaluate ─ compare ─ figures, tables ─ page
#
# Every file is named results/<study>/<stage>/<dataset>/<objective>/<block of seeds>; trained models live in results/runs.

from snakemake.utils import min_version

min_version("9.27")

include: "rules/common.smk"
include: "rules/data.smk"
include: "rules/train.smk"
include: "rules/evaluate.smk"
include: "rules/figures.smk"
include: "rules/report.smk"


localrules:
    all,
    models,
    rows,
    figures,
    tables,


rule all:
    """Everything that the configuration asks for, and the page that shows it."""
    input:
        "results/index.html",
        figures_of_studies,
        tables_of_studies,
    default_target: True


rule models:
    """Trained encoders only."""
    input:
        manifests_of_studies,


rule rows:
    """Evaluations only."""
    input:
        collect("results/{study}/artefacts/rows.parquet", study=studies),


rule figures:
    """Every figure; needs only rows and artefacts, on any machine."""
    input:
        figures_of_studies,


rule tables:
    """Every table; needs only rows and artefacts, on any machine."""
    input:
        tables_of_studies,


onsuccess:
    print_stale_runs()
