# Needs a study's gathered rows, its experiments and other artefacts.  Makes its figures and tables, and from all of them results/index.html,
# which shows every study found under results/.


# Listed one by one, so that each can be asked for; what has not changed is copied from where the last drawing is kept.
for name in DRAWN:

    rule:
        """Draw a study's figures and tables."""
        name:
            f"draw_{name}"
        input:
            expand(
                f"results/{name}/artefacts/{{file}}",
                file=catalogue.files_of(STUDIES[name]),
            ),
        output:
            [
                report(
                    f"results/{name}/figures/{figure}.png",
                    caption="../workflow/captions/figure.rst",
                    category=name,
                    subcategory="figures",
                    labels={"figure": figure},
                )
                for figure in catalogue.figures_of(STUDIES[name])
            ],
            [
                report(
                    f"results/{name}/tables/{table}.csv",
                    caption="../workflow/captions/table.rst",
                    category=name,
                    subcategory="tables",
                    labels={"table": table},
                )
                for table in catalogue.tables_of(STUDIES[name])
            ],
            expand(
                f"results/{name}/figures/{{figure}}.{{ending}}",
                figure=catalogue.figures_of(STUDIES[name]),
                ending=["pdf", "svg", "txt", "code"],
            ),
            expand(
                f"results/{name}/tables/{{table}}.{{ending}}",
                table=catalogue.tables_of(STUDIES[name]),
                ending=["md", "tex", "txt", "code"],
            ),
        log:
            f"results/{name}/logs/draw.log",
        benchmark:
            f"results/{name}/timings/draw.jsonl"
        resources:
            mem_mb=growing("resources/draw/mem_mb"),
            runtime=growing("resources/draw/runtime"),
        params:
            code=drawing_code(name),
        script:
            "../workflow/scripts/draw.py"


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
