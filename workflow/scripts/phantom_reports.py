"""Draw a corpus of synthetic reports."""

from trueneg.compute.jobs import job
from trueneg.data.phantom.corpus import prepare_phantom

with job(snakemake.log[0], snakemake.input, snakemake.output):
    prepare_phantom(snakemake.params.settings, snakemake.params.seed, {**snakemake.output})
