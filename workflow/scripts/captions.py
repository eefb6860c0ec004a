"""Write the sentences of texts that belong to images by name."""

from trueneg.compute.jobs import job
from trueneg.data.pairs.registry import write_captions
from trueneg.store.user_files import recorded

with job(snakemake.log[0]), recorded(snakemake.params.files, snakemake.output[0]):
    write_captions(
        snakemake.params.settings,
        sentences=snakemake.output.sentences,
        unique=snakemake.output.unique,
        cache=snakemake.params.cache,
        processes=snakemake.threads,
    )
