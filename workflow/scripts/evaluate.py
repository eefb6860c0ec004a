"""Evaluate the encoders of a block of runs, or measure how well they rank the negatives that human raters judged to be false."""

from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    if snakemake.rule == "human_ratings":
        from trueneg.evaluation.rating_runs import rate_runs as measure
    else:
        from trueneg.evaluation.evaluate import evaluate_runs as measure

    given = {name: path or None for name, path in snakemake.input.items()}
    measure(**given, **snakemake.params, **snakemake.output)
