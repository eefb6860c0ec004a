"""Compute the vectors of a frozen tower for all images or texts of a source."""

import json
from pathlib import Path

from trueneg.io.files import write_text
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
    )
    if files := snakemake.params.tower["files"]:  # which may be missing when a study is extended
        recorded = Path(snakemake.output.features).with_suffix(".files.json")
        write_text(recorded, json.dumps(files) + "\n")
