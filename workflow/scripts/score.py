"""Score the sentences of a corpus, or write the scores of one shard of them to the cache."""

from trueneg.runtime.jobs import job
from trueneg.text.scoring import score_sentences

shard = snakemake.wildcards.get("shard")
with job(snakemake.log[0], snakemake.input, snakemake.output):
    score_sentences(
        snakemake.input.sentences,
        models=snakemake.input.models,
        settings=snakemake.params.settings,
        cache=snakemake.params.cache,
        likelihoods=snakemake.output.get("likelihoods"),
        shard=int(shard or 0),
        shards=1 if shard is None else snakemake.params.settings["shards"],
    )
