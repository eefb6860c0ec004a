"""Read the reports of a source."""

from trueneg.data.reports.prepare import prepare_reports
from trueneg.data.user_files import recorded
from trueneg.runtime.jobs import job

with (
    job(snakemake.log[0], snakemake.input, snakemake.output),
    recorded(snakemake.params.files, snakemake.output[0]),
):
    prepare_reports(snakemake.params.settings, snakemake.output.reports)
