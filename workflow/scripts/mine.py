"""Find the nearest training texts of each anchor with a frozen tower, or by words."""

from trueneg.data.mining import write_mined
from trueneg.runtime.jobs import job

with job(snakemake.log[0], snakemake.input, snakemake.output):
    write_mined(
        source=snakemake.input.source,
        subsets=snakemake.input.subsets,
        vectors=snakemake.input.vectors,
        mined=snakemake.output.mined,
        bm25=bool(snakemake.wildcards.ranking),
    )
