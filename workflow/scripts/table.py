"""Write one table of a study."""

from trueneg.compute.jobs import job
from trueneg.report.build import write_table
from trueneg.store.provenance import record_code

with job(snakemake.log[0]):
    write_table(snakemake.wildcards.table, snakemake.input, snakemake.output)
    record_code(snakemake.output.code, snakemake.params.code)
