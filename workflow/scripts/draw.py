"""Draw the figures and tables of a study whose rows or code changed."""

from pathlib import Path

from trueneg.compute.jobs import job
from trueneg.report.build import draw_study

with job(snakemake.log[0]):
    draw_study(Path(snakemake.output[0]).parents[1])  # results/<study>
