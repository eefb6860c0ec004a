"""Draw a corpus of synthetic reports."""

from trueneg.compute.jobs import job
from trueneg.data.phantom.corpus import prepare_phantom

with job(snakemake.log[0]):
    prepare_phantom(
        snakemake.params.settings,
        seed=snakemake.params.seed,
        reports=snakemake.output.reports,
        assigned=snakemake.output.assigned,
        classes=snakemake.output.classes,
    )
