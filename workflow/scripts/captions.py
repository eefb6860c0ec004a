"""Write the sentences of texts that belong to images by name."""

from trueneg.datasets.captions import write_captions
from trueneg.jobs import job

with job(snakemake.log[0]):
    write_captions(
        snakemake.params.settings,
        sentences=snakemake.output.sentences,
        unique=snakemake.output.unique,
        cache=snakemake.params.cache,
        processes=snakemake.threads,
    )
