"""Compute the vectors of a frozen tower for all images or texts of a source."""

from trueneg.runtime.jobs import job
from trueneg.training.frozen import compute_features

with job(snakemake.log[0], snakemake.input, snakemake.output):
    compute_features(
        snakemake.params.tower["made_of"],
        source=snakemake.input.source,
        features=snakemake.output.features,
        cache=snakemake.params.cache,
        device=snakemake.params.device,
        threads=snakemake.threads,
        files=snakemake.params.tower["files"],
    )
