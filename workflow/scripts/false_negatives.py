"""Count the texts with an anchor's label among the nearest ones, by rank and by similarity."""

from trueneg.data.mining import write_false_shares
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_false_shares(snakemake.input.source, snakemake.params.miners, snakemake.output.shares)
