"""Write the page that shows every study found in the results."""

from trueneg.compute.jobs import job
from trueneg.report.build import write_page

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_page(snakemake.output.page, snakemake.input.studies)
