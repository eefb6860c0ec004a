"""Compute one experiment of a study without training."""

from trueneg.runtime.jobs import job
from trueneg.specs.kinds import kind_of
from trueneg.theory.experiments import write_experiment

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_experiment(
        kind_of(snakemake.config[snakemake.wildcards.study]).COMPUTED_BY,
        snakemake.wildcards.experiment,
        snakemake.params.settings,
        snakemake.output.frame,
        snakemake.threads,
    )
