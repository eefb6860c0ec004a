# Needs a study's gathered rows, its experiments and other artefacts, nothing else.  Makes its figures and tables.


rule figure:
    """Draw one figure."""
    input:
        unpack(plan.drawn_from),
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
        mem_mb=plan.growing(2000),
        runtime=plan.growing(10),
    params:
        code=plan.code(provenance.REPORT),
    script:
        "../workflow/scripts/figure.py"


rule table:
    """Write one table as CSV, Markdown and LaTeX."""
    input:
        unpack(plan.drawn_from),
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
        mem_mb=plan.growing(2000),
        runtime=plan.growing(10),
    params:
        code=plan.code(provenance.REPORT),
    script:
        "../workflow/scripts/table.py"
