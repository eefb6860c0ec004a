"""Select one configuration of each tuned objective on its pilot seeds."""

from trueneg.report.summary import select_winners
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    select_winners(
        snakemake.input.rows,
        snakemake.params.settings,
        winners=snakemake.output.winners,
        validation=snakemake.output.rows,
    )
