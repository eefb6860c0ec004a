"""Split reports into sentences."""

from trueneg.runtime.jobs import job
from trueneg.text.sentences import split_reports

with job(snakemake.log[0], snakemake.input, snakemake.output):
    split_reports(
        snakemake.input.reports,
        **snakemake.output,
        cache=snakemake.params.cache,
        processes=snakemake.threads,
    )
