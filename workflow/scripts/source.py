"""Decode and check a source's images once."""

from trueneg.datasets.prepare import prepare_source
from trueneg.jobs import job

with job(snakemake.log[0]):
    prepare_source(snakemake.params.settings, snakemake.output[0])
