"""What the first seed's networks retrieve for some queries."""

from trueneg.compute.jobs import job
from trueneg.evaluation.retrieval_examples import write_examples

with job(snakemake.log[0]):
    write_examples(
        source=snakemake.input.source,
        subsets=snakemake.input.subsets,
        manifest=snakemake.input.manifest,
        store=snakemake.params.store,
        threads=snakemake.threads,
        device=snakemake.params.device,
        examples=snakemake.output.examples,
    )
