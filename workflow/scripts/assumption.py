"""Compare likelihoods with class probabilities."""

from pathlib import Path

from trueneg.runtime.jobs import job
from trueneg.text.assumption import check_assumption

with job(snakemake.log[0], snakemake.input, snakemake.output):
    check_assumption(
        snakemake.input.sentences,
        assigned=snakemake.input.assigned,
        classes=snakemake.input.classes,
        likelihoods={Path(path).stem: path for path in snakemake.input.likelihoods},
        corpus=snakemake.wildcards.corpus,
        folds=snakemake.params.folds,
        seed=snakemake.params.seed,
        tables={**snakemake.output},
    )
