"""Measure how far the class probabilities of each run are from the known ones."""

from trueneg.evaluation.eta_errors import write_eta_errors
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_eta_errors(
        runs=snakemake.input.runs,
        sources=snakemake.input.sources,
        subsets=snakemake.input.subsets,
        errors=snakemake.output.errors,
    )
