"""Read the reports of a source."""

from trueneg.compute.jobs import job
from trueneg.store.user_files import recorded
from trueneg.text.reports import prepare_reports

with job(snakemake.log[0], snakemake.input, snakemake.output), recorded(snakemake.params.files, snakemake.output[0]):
    prepare_reports(snakemake.params.settings, snakemake.output.reports)
