# Needs a study's gathered rows and artefacts, nothing else.  Makes its figures and tables.


def report_fingerprint():
    """A file that changes with the code that draws: an input, so that editing a figure's code draws figures anew, and nothing else."""
    path, today = Path("results/report.fingerprint"), provenance.fingerprint(provenance.REPORT)
    if not path.is_file() or path.read_text() != today:
        path.parent.mkdir(exist_ok=True)
        path.write_text(today)
    return str(path)


def artefacts_of_figure(wildcards):
    """What a figure reads beyond the gathered rows and curves."""
    return catalogue.artefacts_of(wildcards.figure, wildcards.study, studies[wildcards.study])


rule figure:
    """Draw one figure."""
    input:
        rows="results/{study}/artefacts/rows.parquet",
        curves="results/{study}/artefacts/curves.parquet",
        comparison="results/{study}/artefacts/comparison.json",
        study="results/{study}/artefacts/study.yaml",
        artefacts=artefacts_of_figure,
        code=report_fingerprint(),
    output:
        png=report(
            "results/{study}/figures/{figure}.png",
            caption="../workflow/captions/figure.rst",
            category="{study}",
            subcategory="figures",
            labels={"figure": "{figure}"},
        ),
        pdf="results/{study}/figures/{figure}.pdf",
        svg="results/{study}/figures/{figure}.svg",
        caption="results/{study}/figures/{figure}.txt",
    resources:
        mem_mb=2000,
        runtime=10,
    log:
        "results/{study}/logs/figures/{figure}.log",
    benchmark:
        "results/{study}/timings/figures/{figure}.jsonl"
    script:
        "../workflow/scripts/figure.py"


rule table:
    """Write one table as CSV, Markdown and LaTeX."""
    input:
        rows="results/{study}/artefacts/rows.parquet",
        comparison="results/{study}/artefacts/comparison.json",
        study="results/{study}/artefacts/study.yaml",
        code=report_fingerprint(),
    output:
        csv=report(
            "results/{study}/tables/{table}.csv",
            caption="../workflow/captions/table.rst",
            category="{study}",
            subcategory="tables",
            labels={"table": "{table}"},
        ),
        markdown="results/{study}/tables/{table}.md",
        latex="results/{study}/tables/{table}.tex",
        caption="results/{study}/tables/{table}.txt",
    resources:
        mem_mb=2000,
        runtime=10,
    log:
        "results/{study}/logs/tables/{table}.log",
    benchmark:
        "results/{study}/timings/tables/{table}.jsonl"
    script:
        "../workflow/scripts/table.py"
