"""Join Flickr8k's photographs with their captions."""

from trueneg.compute.jobs import job
from trueneg.data.pairs.flickr8k import prepare_flickr_pairs
from trueneg.store.user_files import recorded

with job(snakemake.log[0]), recorded(snakemake.params.files, snakemake.output[0]):
    prepare_flickr_pairs(
        {**snakemake.params.reports, **snakemake.params.settings},
        sentences=snakemake.input.sentences,
        eta=snakemake.input.eta,
        pairs=snakemake.output.pairs,
        splits=snakemake.output.splits,
        ratings=snakemake.output.ratings,
        cache=snakemake.params.cache,
        threads=snakemake.threads,
    )
