"""Gather class probabilities by latent class."""

from trueneg.datasets.phantom_pairs import write_eta_by_class
from trueneg.jobs import job

with job(snakemake.log[0]):
    write_eta_by_class(snakemake.input.sentences, classes=snakemake.input.classes, table=snakemake.output.table)
