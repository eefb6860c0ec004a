"""Train the language models of a corpus."""

from trueneg.runtime.jobs import job
from trueneg.text.language_models import train_language_models

settings = dict(snakemake.params.settings)
with job(snakemake.log[0], snakemake.input, snakemake.output):
    train_language_models(
        snakemake.input.sentences,
        files=settings.pop("files", {}),
        settings=settings,
        seed=snakemake.params.seed,
        store=snakemake.params.store,
        manifest=snakemake.output.manifest,
        start=snakemake.input.get("start") or None,
    )
