"""Write one table of a study."""

from trueneg.jobs import job
from trueneg.report.build import write_table

with job(snakemake.log[0]):
    write_table(snakemake.wildcards.table, snakemake.input, snakemake.output)
