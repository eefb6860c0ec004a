"""Train one objective on one block of seeds; finished runs are reused, interrupted ones resume."""

from trueneg.runtime.jobs import job
from trueneg.training.engine import train_runs

with job(snakemake.log[0], snakemake.input, snakemake.output):
    train_runs(
        snakemake.params.runs,
        source=snakemake.input.source,
        subsets=snakemake.input.subsets,
        store=snakemake.params.store,
        manifest=snakemake.output.manifest,
        winners=snakemake.input.get("winners") or None,
        vectors=snakemake.input.vectors,
        mined=snakemake.input.get("mined") or None,
    )
