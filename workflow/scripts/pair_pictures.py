"""Compute similarities of pairs and heatmaps of phrases with the networks of the first seed."""

from trueneg.evaluation.pair_pictures import picture_run
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    picture_run(
        **snakemake.input, **snakemake.params, **snakemake.output, threads=snakemake.threads
    )
