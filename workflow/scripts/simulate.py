"""Run one experiment of a theory study."""

from trueneg.runtime.jobs import job
from trueneg.theory.experiments import write_experiment

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_experiment(
        snakemake.wildcards.experiment,
        snakemake.params.settings,
        snakemake.output.frame,
        snakemake.threads,
    )
