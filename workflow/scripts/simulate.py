"""Run one experiment of a theory study."""

from trueneg.compute.jobs import job
from trueneg.io.files import write_text
from trueneg.theory.experiments import write_experiment

with job(snakemake.log[0]):
    write_experiment(snakemake.wildcards.experiment, snakemake.params.settings, snakemake.output.frame, snakemake.threads)
    write_text(snakemake.output.code, snakemake.params.code)
