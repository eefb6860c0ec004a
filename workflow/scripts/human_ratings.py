"""Measure how well the networks of a block rank the negatives that human raters judged to be
false.
"""

from trueneg.evaluation.rating_runs import rate_runs
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    rate_runs(**snakemake.input, **snakemake.params, **snakemake.output)
