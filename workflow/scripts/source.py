"""Decode and check the images of a source once."""

from trueneg.data.images.loading import prepare_source
from trueneg.data.user_files import recorded
from trueneg.runtime.jobs import job

with (
    job(snakemake.log[0], snakemake.input, snakemake.output),
    recorded(snakemake.params.files, snakemake.output[0]),
):
    prepare_source(snakemake.params.settings, snakemake.output[0])
