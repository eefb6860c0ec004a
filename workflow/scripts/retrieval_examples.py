"""Retrieve examples for some queries with the networks of the first seed."""

from trueneg.evaluation.retrieval_examples import write_examples
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_examples(
        **snakemake.input, **snakemake.params, **snakemake.output, threads=snakemake.threads
    )
