"""Measure how well the networks of a block rank the negatives that human raters judged to be
false.
"""

from trueneg.evaluation.rating_runs import measure_ratings, of_run
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    measure_ratings(of_run, dict(snakemake.output.items()), **snakemake.input, **snakemake.params)
