"""Write the sentences of captions."""

from trueneg.data.pairs.registry import write_captions
from trueneg.data.user_files import recorded
from trueneg.runtime.jobs import job

with (
    job(snakemake.log[0], snakemake.input, snakemake.output),
    recorded(snakemake.params.files, snakemake.output[0]),
):
    write_captions(
        snakemake.params.settings,
        **snakemake.output,
        cache=snakemake.params.cache,
        processes=snakemake.threads,
    )
