"""Run one experiment of a theory study."""

from trueneg.compute.jobs import job
from trueneg.store.provenance import record_code
from trueneg.theory.experiments import write_experiment

with job(snakemake.log[0]):
    write_experiment(snakemake.wildcards.experiment, snakemake.params.settings, snakemake.output.frame, snakemake.threads)
    record_code(snakemake.output.code, snakemake.params.code)
