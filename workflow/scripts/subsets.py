"""Draw the splits and subsets for every seed of a block."""

from trueneg.data.draw import draw_subsets
from trueneg.runtime.jobs import job
from trueneg.specs.kinds import kind_of

with job(snakemake.log[0], snakemake.input, snakemake.output):
    draw_subsets(
        kind_of(snakemake.config[snakemake.wildcards.study]),
        snakemake.input.source,
        snakemake.params.settings,
        snakemake.params.seeds,
        snakemake.output.subsets,
        splits=snakemake.input.get("splits") or None,
        group=snakemake.params.group,
    )
