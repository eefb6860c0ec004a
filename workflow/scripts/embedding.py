"""Compute t-SNE coordinates of the test images with the networks of the first seed."""

from trueneg.evaluation.embedding import embed_run
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    embed_run(**snakemake.input, **snakemake.params, **snakemake.output, threads=snakemake.threads)
