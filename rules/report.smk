# Needs a study's gathered rows, its experiments and other artefacts.  Makes its figures and tables, and from all of them results/index.html,
# which shows every study found under results/.


rule figure:
    """Draw one figure."""
    input:
        unpack(drawn_from),
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
        code="results/{study}/figures/{figure}.code",
    log:
        "results/{study}/logs/figures/{figure}.log",
    benchmark:
        "results/{study}/timings/figures/{figure}.jsonl"
    resources:
        mem_mb=growing("resources/figure/mem_mb"),
        runtime=growing("resources/figure/runtime"),
    params:
        code=code(provenance.REPORT),
    script:
        "../workflow/scripts/figure.py"


rule table:
    """Write one table as CSV, Markdown and LaTeX."""
    input:
        unpack(drawn_from),
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
        code="results/{study}/tables/{table}.code",
    log:
        "results/{study}/logs/tables/{table}.log",
    benchmark:
        "results/{study}/timings/tables/{table}.jsonl"
    resources:
        mem_mb=growing("resources/table/mem_mb"),
        runtime=growing("resources/table/runtime"),
    params:
        code=code(provenance.REPORT),
    script:
        "../workflow/scripts/table.py"


rule page:
    """One self-contained page: questions, answers, figures, tables, settings and provenance."""
    input:
        drawn("figures", STUDIES),
        drawn("tables", STUDIES),
        retrieval_examples(),
        studies=collect("results/{study}/artefacts/study.yaml", study=STUDIES),
    output:
        page="results/index.html",
    log:
        "results/logs/page.log",
    benchmark:
        "results/timings/page.jsonl"
    resources:
        mem_mb=growing("resources/page/mem_mb"),
        runtime=growing("resources/page/runtime"),
    params:
        code=code(provenance.REPORT),
    script:
        "../workflow/scripts/page.py"
