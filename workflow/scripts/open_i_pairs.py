"""Join Open-I's radiographs with their reports' sentences."""

from trueneg.compute.jobs import job
from trueneg.data.pairs.open_i import prepare_open_i_pairs
from trueneg.store.user_files import recorded

with job(snakemake.log[0]), recorded(snakemake.params.files, snakemake.output[0]):
    prepare_open_i_pairs(
        snakemake.params.settings,
        archive=snakemake.params.archive,
        sentences=snakemake.input.sentences,
        assigned=snakemake.input.assigned,
        eta=snakemake.input.eta,
        pairs=snakemake.output.pairs,
        classes=snakemake.output.classes,
        cache=snakemake.params.cache,
        threads=snakemake.threads,
    )
