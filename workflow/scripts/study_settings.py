"""Write the resolved settings of a study."""

from trueneg.report.summary import write_settings
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_settings(snakemake.params.settings, snakemake.output[0])
