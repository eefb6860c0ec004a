"""Draw the splits and the imbalanced subset of every seed of a block."""

from trueneg.datasets.prepare import draw_subsets
from trueneg.jobs import job

with job(snakemake.log[0]):
    draw_subsets(snakemake.input.source, snakemake.params.settings, snakemake.params.seeds, snakemake.output.subsets)
