"""Assign classes to the sentences of Open-I."""

from trueneg.data.reports.open_i_classes import open_i_classes
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    open_i_classes(
        snakemake.input.sentences,
        archive=snakemake.params.settings["path"],
        assigned=snakemake.output.assigned,
        classes=snakemake.output.classes,
    )
