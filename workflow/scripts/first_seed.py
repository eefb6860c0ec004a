"""Retrieve examples with the networks of the first seed, or compute t-SNE coordinates of its test images."""

from trueneg.compute.jobs import job

with job(snakemake.log[0]):
    if snakemake.rule == "embedding":
        from trueneg.evaluation.embedding import embed_run as write
    else:
        from trueneg.evaluation.retrieval_examples import write_examples as write

    write(**snakemake.input, **snakemake.params, **snakemake.output, threads=snakemake.threads)
