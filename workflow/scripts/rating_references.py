"""Measure how well one expert, TF-IDF and the language model rank false negatives, and how η
correlates with their share.
"""

from trueneg.evaluation.rating_runs import REFERENCE, measure_ratings, of_references
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    measure_ratings(
        of_references,
        dict(snakemake.output.items()),
        **snakemake.input,
        **snakemake.params,
        names=REFERENCE,
    )
