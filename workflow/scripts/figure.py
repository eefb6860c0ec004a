"""Draw one figure of a study."""

from trueneg.compute.jobs import job
from trueneg.report.build import draw_figure
from trueneg.store.provenance import record_code

with job(snakemake.log[0]):
    draw_figure(snakemake.wildcards.figure, snakemake.input, snakemake.output)
    record_code(snakemake.output.code, snakemake.params.code)
