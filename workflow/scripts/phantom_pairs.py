"""Draw radiographs, and join them with their reports' sentences."""

from trueneg.compute.jobs import job
from trueneg.data.pairs.phantom import prepare_phantom_pairs

with job(snakemake.log[0]):
    prepare_phantom_pairs(
        snakemake.params.settings,
        seed=snakemake.params.seed,
        reports=snakemake.input.reports,
        sentences=snakemake.input.sentences,
        assigned=snakemake.input.assigned,
        classes=snakemake.input.classes,
        eta=snakemake.input.eta,
        pairs=snakemake.output.pairs,
        boxes=snakemake.output.boxes,
        processes=snakemake.threads,
    )
