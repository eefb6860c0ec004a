"""Split the patients of every seed of a block."""

from trueneg.datasets.pair_splits import draw_pair_subsets
from trueneg.jobs import job

with job(snakemake.log[0]):
    draw_pair_subsets(snakemake.input.source, snakemake.params.settings, snakemake.params.seeds, snakemake.output.subsets)
