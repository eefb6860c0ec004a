"""Gather the rows of a study; compute the selection, the headroom and the primary contrast."""

from trueneg.report.summary import summarise_study
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    params = snakemake.params
    summarise_study(
        snakemake.wildcards.study, params.study, snakemake.input, snakemake.output, params.protocol
    )
