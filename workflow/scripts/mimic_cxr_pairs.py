"""Join MIMIC-CXR's radiographs with their reports' sentences."""

from trueneg.compute.jobs import job
from trueneg.data.pairs.mimic_cxr import prepare_mimic_cxr_pairs
from trueneg.store.user_files import recorded

with job(snakemake.log[0]), recorded(snakemake.params.files, snakemake.output[0]):
    prepare_mimic_cxr_pairs(
        snakemake.params.settings,
        sentences=snakemake.input.sentences,
        eta=snakemake.input.eta,
        pairs=snakemake.output.pairs,
        splits=snakemake.output.splits,
        boxes=snakemake.output.boxes,
        cache=snakemake.params.cache,
        threads=snakemake.threads,
    )
