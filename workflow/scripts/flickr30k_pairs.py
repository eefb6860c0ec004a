"""Join Flickr30k's photographs with their captions."""

from trueneg.compute.jobs import job
from trueneg.data.pairs.flickr30k import prepare_flickr30k_pairs
from trueneg.store.user_files import recorded

with job(snakemake.log[0]), recorded(snakemake.params.files, snakemake.output[0]):
    prepare_flickr30k_pairs(
        {**snakemake.params.reports, **snakemake.params.settings},
        sentences=snakemake.input.sentences,
        eta=snakemake.input.eta,
        pairs=snakemake.output.pairs,
        splits=snakemake.output.splits,
        cache=snakemake.params.cache,
        threads=snakemake.threads,
    )
