"""Split the patients of every seed of a block, or take the official splits."""

from trueneg.compute.jobs import job
from trueneg.data.pairs.official_splits import draw_official_subsets
from trueneg.data.pairs.pair_splits import draw_pair_subsets

with job(snakemake.log[0]):
    inputs, seeds, subsets = snakemake.input, snakemake.params.seeds, snakemake.output.subsets
    if inputs.get("splits"):
        draw_official_subsets(inputs.source, inputs.splits, seeds, subsets)
    else:
        draw_pair_subsets(inputs.source, snakemake.params.settings, seeds, subsets)
