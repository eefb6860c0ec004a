"""Draw one figure for all trained studies of the configuration."""

from pathlib import Path

from trueneg.report.drawing import save
from trueneg.report.overview import overview
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    figure, table = overview(dict.fromkeys(Path(file).parent for file in snakemake.input))
    save(figure, Path(snakemake.output.figure).with_suffix(""), "Overview of all studies")
    table.to_csv(snakemake.output.table, index=False)
