"""Draw a corpus of synthetic reports."""

from trueneg.data.phantom.corpus import prepare_phantom
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    prepare_phantom(snakemake.params.settings, snakemake.params.seed, {**snakemake.output})
