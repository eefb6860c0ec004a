"""Draw one figure of a study."""

from trueneg.jobs import job
from trueneg.report.build import draw_figure

with job(snakemake.log[0]):
    draw_figure(snakemake.wildcards.figure, snakemake.input, snakemake.output)
