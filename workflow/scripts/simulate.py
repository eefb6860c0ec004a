"""Run one experiment of a theory study."""

from trueneg.jobs import job
from trueneg.simulation.catalogue import write_experiment

with job(snakemake.log[0]):
    write_experiment(snakemake.wildcards.experiment, snakemake.params.settings, snakemake.output[0], snakemake.threads)
