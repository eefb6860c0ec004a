"""Measure the primary measurement of a study on each test sample of a block of runs."""

from trueneg.evaluation.samples_of_runs import measure_samples
from trueneg.runtime.jobs import job

block = {name: path for name, path in snakemake.input.items() if name != "rows"}
with job(snakemake.log[0], snakemake.input, snakemake.output):
    measure_samples(**block, **snakemake.params, **snakemake.output)
