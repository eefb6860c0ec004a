"""Read a source's reports."""

from trueneg.jobs import job
from trueneg.text.reports import prepare_reports

with job(snakemake.log[0]):
    prepare_reports(snakemake.params.settings, snakemake.output.reports)
