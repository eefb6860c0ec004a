"""t-SNE coordinates of the first seed's test images."""

from trueneg.compute.jobs import job
from trueneg.evaluation.embedding import embed_run

with job(snakemake.log[0]):
    embed_run(
        source=snakemake.input.source,
        subsets=snakemake.input.subsets,
        manifest=snakemake.input.manifest,
        store=snakemake.params.store,
        images=snakemake.params.images,
        device=snakemake.params.device,
        threads=snakemake.threads,
        embedding=snakemake.output.embedding,
    )
