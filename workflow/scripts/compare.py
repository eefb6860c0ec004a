"""Gather the rows of a study; compute the selection, the headroom and the primary contrast."""

from trueneg.compute.jobs import job
from trueneg.report.summary import summarise_study

with job(snakemake.log[0]):
    summarise_study(snakemake.wildcards.study, snakemake.params.study, snakemake.input, snakemake.output)
