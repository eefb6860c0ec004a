"""Read the texts of a text study."""

from trueneg.data.texts.reading import prepare_texts
from trueneg.data.user_files import recorded
from trueneg.runtime.jobs import job

with (
    job(snakemake.log[0], snakemake.input, snakemake.output),
    recorded(snakemake.params.files, snakemake.output[0]),
):
    prepare_texts(snakemake.params.settings, dict(snakemake.input.items()), snakemake.output.texts)
