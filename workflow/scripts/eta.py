"""Compute class probabilities from likelihoods."""

from trueneg.runtime.jobs import job
from trueneg.text.eta import write_class_probabilities

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_class_probabilities(
        snakemake.input.likelihoods,
        settings=snakemake.params.settings,
        seed=snakemake.params.seed,
        eta=snakemake.output.eta,
    )
