"""Join the images of a source with their sentences."""

from trueneg.data.pairs.registry import prepare_pairs
from trueneg.data.user_files import recorded
from trueneg.runtime.jobs import job

with (
    job(snakemake.log[0], snakemake.input, snakemake.output),
    recorded(snakemake.params.files, snakemake.output[0]),
):
    prepare_pairs(
        snakemake.params.settings,
        dict(snakemake.input.items()),
        snakemake.output.pairs,
        cache=snakemake.params.cache,
        threads=snakemake.threads,
    )
