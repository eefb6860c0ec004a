"""Summarise class probabilities by latent class."""

from trueneg.data.pairs.phantom import write_eta_by_class
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_eta_by_class(snakemake.input.sentences, classes=snakemake.input.classes, table=snakemake.output.table)
