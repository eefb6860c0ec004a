"""Compute similarities of pairs and heatmaps of phrases with the networks of the first seed."""

from trueneg.compute.jobs import job
from trueneg.evaluation.pair_pictures import picture_run

with job(snakemake.log[0]):
    picture_run(
        source=snakemake.input.source,
        boxes=snakemake.input.boxes,
        subsets=snakemake.input.subsets,
        manifest=snakemake.input.manifest,
        store=snakemake.params.store,
        settings=snakemake.params.settings,
        phrases=snakemake.params.phrases,
        device=snakemake.params.device,
        similarities=snakemake.output.similarities,
        overlays=snakemake.output.overlays,
    )
