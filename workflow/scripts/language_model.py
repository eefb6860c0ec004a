"""Train the language models of a corpus."""

from trueneg.runtime.jobs import job
from trueneg.text.language_models import train_language_models

with job(snakemake.log[0], snakemake.input, snakemake.output):
    train_language_models(
        snakemake.input.sentences,
        settings=snakemake.params.settings,
        seed=snakemake.params.seed,
        store=snakemake.params.store,
        manifest=snakemake.output.manifest,
        start=snakemake.input.get("start") or None,
    )
