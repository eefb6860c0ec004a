"""Decode the images of CheXpert 8×200 and read its sentences."""

from trueneg.data.pairs.chexpert_8x200 import prepare_chexpert_8x200
from trueneg.data.user_files import recorded
from trueneg.runtime.jobs import job

with (
    job(snakemake.log[0], snakemake.input, snakemake.output),
    recorded(snakemake.params.files, snakemake.output[0]),
):
    prepare_chexpert_8x200(
        snakemake.params.settings,
        benchmark=snakemake.output.benchmark,
        cache=snakemake.params.cache,
        threads=snakemake.threads,
    )
