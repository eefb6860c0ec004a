"""How the networks of a block of image–text runs rank the negatives that people call false."""

from trueneg.compute.jobs import job
from trueneg.evaluation.rating_runs import rate_runs

with job(snakemake.log[0]):
    rate_runs(
        source=snakemake.input.source,
        ratings=snakemake.input.ratings,
        subsets=snakemake.input.subsets,
        manifest=snakemake.input.manifest,
        names=snakemake.params.names,
        store=snakemake.params.store,
        settings=snakemake.params.settings,
        device=snakemake.params.device,
        areas=snakemake.output.areas,
        bins=snakemake.output.bins,
    )
