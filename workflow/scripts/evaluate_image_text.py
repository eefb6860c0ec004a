"""Measure the networks of a block of image–text runs."""

from trueneg.compute.jobs import job
from trueneg.evaluation.image_text_runs import evaluate_image_text_runs

with job(snakemake.log[0]):
    evaluate_image_text_runs(
        source=snakemake.input.source,
        boxes=snakemake.input.boxes,
        benchmark=snakemake.input.get("benchmark") or None,
        subsets=snakemake.input.subsets,
        manifest=snakemake.input.manifest,
        names=snakemake.params.names,
        store=snakemake.params.store,
        settings=snakemake.params.settings,
        device=snakemake.params.device,
        rows=snakemake.output.rows,
        curves=snakemake.output.curves,
        runs=snakemake.output.runs,
    )
