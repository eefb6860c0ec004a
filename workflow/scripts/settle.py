"""Write the resolved settings of a study."""

from trueneg.compute.jobs import job
from trueneg.report.summary import write_settings

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_settings(snakemake.params.settings, snakemake.output[0])
