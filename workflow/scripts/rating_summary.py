"""Summarise how well each of a study's objectives ranks false negatives, over all seeds."""

from trueneg.evaluation.rating_summary import gather_ratings
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    gather_ratings(
        areas=snakemake.input.areas,
        references=snakemake.input.references,
        bins=snakemake.input.bins,
        captions=snakemake.input.captions,
        correlated=snakemake.input.correlated,
        summary=snakemake.output.summary,
        rows=snakemake.output.rows,
        calibration=snakemake.output.calibration,
        eta=snakemake.output.eta,
        correlations=snakemake.output.correlations,
    )
