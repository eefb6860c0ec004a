"""Split the patients of every seed of a block, or take the official splits."""

from trueneg.datasets.official_splits import draw_official_subsets
from trueneg.datasets.pair_splits import draw_pair_subsets
from trueneg.jobs import job

with job(snakemake.log[0]):
    inputs, seeds, subsets = snakemake.input, snakemake.params.seeds, snakemake.output.subsets
    if inputs.get("splits"):
        draw_official_subsets(inputs.source, inputs.splits, seeds, subsets)
    else:
        draw_pair_subsets(inputs.source, snakemake.params.settings, seeds, subsets)
