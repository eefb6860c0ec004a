"""Evaluate the encoders of a block of runs."""

from trueneg.evaluation.evaluate import evaluate_runs
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    inputs = {name: path or None for name, path in snakemake.input.items()}
    evaluate_runs(**inputs, **snakemake.params, **snakemake.output)
