"""Split reports into sentences, or write the sentences of captions."""

from trueneg.runtime.jobs import job

given = {**snakemake.output, "cache": snakemake.params.cache, "processes": snakemake.threads}
with job(snakemake.log[0], snakemake.input, snakemake.output):
    if snakemake.rule == "captions":
        from trueneg.data.pairs.registry import write_captions
        from trueneg.data.user_files import recorded

        with recorded(snakemake.params.files, snakemake.output[0]):
            write_captions(snakemake.params.settings, **given)
    else:
        from trueneg.text.sentences import split_reports

        split_reports(snakemake.input.reports, **given)
