"""Find the most similar training samples with different labels, or of different pairs."""

from trueneg.evaluation.suspects import write_suspects
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_suspects(**snakemake.input, **snakemake.params, **snakemake.output)
