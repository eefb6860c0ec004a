"""Split reports into sentences."""

from trueneg.compute.jobs import job
from trueneg.text.sentences import split_reports

with job(snakemake.log[0]):
    split_reports(
        snakemake.input.reports,
        sentences=snakemake.output.sentences,
        unique=snakemake.output.unique,
        cache=snakemake.params.cache,
        processes=snakemake.threads,
    )
