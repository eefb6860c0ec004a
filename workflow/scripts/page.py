"""Write the page that shows every study found in the results."""

from trueneg.report.build import write_page
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_page(snakemake.output.page, snakemake.input.studies)
