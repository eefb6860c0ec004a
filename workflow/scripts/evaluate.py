"""Measure the encoders of a block of runs."""

from trueneg.compute.jobs import job
from trueneg.evaluation.evaluate import evaluate_runs

with job(snakemake.log[0]):
    evaluate_runs(
        source=snakemake.input.source,
        boxes=snakemake.input.get("boxes") or None,
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
