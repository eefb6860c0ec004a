"""Measure how well one expert, TF-IDF and the language model rank false negatives, and how η
correlates with their share.
"""

from trueneg.evaluation.rating_runs import rate_references
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    rate_references(
        source=snakemake.input.source,
        ratings=snakemake.input.ratings,
        subsets=snakemake.input.subsets,
        manifest=snakemake.input.manifest,
        vectors=snakemake.input.vectors,
        store=snakemake.params.store,
        settings=snakemake.params.settings,
        device=snakemake.params.device,
        areas=snakemake.output.areas,
        eta=snakemake.output.eta,
        correlations=snakemake.output.correlations,
    )
