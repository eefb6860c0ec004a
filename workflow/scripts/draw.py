"""Draw a study's figures and tables, except those whose rows and code have not changed."""

from pathlib import Path

from trueneg.report.build import draw_study
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    draw_study(Path(snakemake.output[0]).parents[1])  # results/<study>
