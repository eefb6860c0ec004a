"""Score the sentences of a corpus."""

from trueneg.compute.jobs import job
from trueneg.text.scoring import score_sentences

with job(snakemake.log[0]):
    score_sentences(
        snakemake.input.sentences,
        models=snakemake.input.models,
        settings=snakemake.params.settings,
        cache=snakemake.params.cache,
        likelihoods=snakemake.output.likelihoods,
    )
