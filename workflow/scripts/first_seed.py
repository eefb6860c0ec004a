"""With the networks of the first seed, retrieve examples, embed test images with t-SNE, or compute similarities and heatmaps."""

from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    if snakemake.rule == "embedding":
        from trueneg.evaluation.embedding import embed_run as write
    elif snakemake.rule == "pair_pictures":
        from trueneg.evaluation.pair_pictures import picture_run as write
    else:
        from trueneg.evaluation.retrieval_examples import write_examples as write

    write(**snakemake.input, **snakemake.params, **snakemake.output, threads=snakemake.threads)
