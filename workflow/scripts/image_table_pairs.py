"""Join own images with their sentences."""

from trueneg.compute.jobs import job
from trueneg.data.pairs.image_table import prepare_table_pairs
from trueneg.store.user_files import recorded

with job(snakemake.log[0]), recorded(snakemake.params.files, snakemake.output[0]):
    prepare_table_pairs(
        {**snakemake.params.reports, **snakemake.params.settings},
        sentences=snakemake.input.sentences,
        eta=snakemake.input.eta,
        pairs=snakemake.output.pairs,
        cache=snakemake.params.cache,
        threads=snakemake.threads,
    )
