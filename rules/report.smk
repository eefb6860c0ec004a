# Inputs: the gathered rows of a study, its experiments and other artefacts. Outputs: its figures
# and tables, and results/index.html, which shows every study found in results/.


# Each figure and table is an output, so that it can be requested by its path.
for study, files in registry.files_by_study(STUDIES).items():

    rule:
        """Draw the figures and tables of a study."""
        name:
            f"draw_{study}"
        input:
            collect("results/{study}/artefacts/{file}", study=study, file=files),
        output:
            [
                report(
                    path,
                    caption=f"../workflow/captions/{kind}.rst",
                    category=study,
                    subcategory=kind,
                    labels={kind.removesuffix("s"): Path(path).stem},
                )
                for kind in registry.FILES
                for path in drawn([study], [kind])
            ],
            drawn([study], others=True),
        log:
            f"results/{study}/logs/draw_{study}.log",
        benchmark:
            f"results/{study}/timings/draw_{study}.jsonl"
        conda:
            "../envs/trueneg.yaml"
        resources:
            **growing("resources/draw"),
        params:
            code=registry.report_code(),
        message:
            f"Draw the figures and tables of {study}: {{log}}"
        script:
            "../workflow/scripts/draw.py"


rule page:
    """Write one self-contained page: answers, figures, tables, settings and provenance."""
    input:
        drawn(STUDIES),
        trainings.retrieval_examples(),
        trainings.suspects(),
        studies=collect("results/{study}/artefacts/study.yaml", study=STUDIES),
    output:
        page="results/index.html",
    log:
        "results/logs/page.log",
    benchmark:
        "results/timings/page.jsonl"
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/page"),
    params:
        code=registry.report_code(),
    message:
        "Write the page: {log}"
    script:
        "../workflow/scripts/page.py"


rule overview:
    """Draw what the oracle, the best method and a control gain in each trained study."""
    input:
        collect(rules.compare.output.rows, study=trainings.studies),
        collect(rules.compare.output.comparison, study=trainings.studies),
        collect(rules.compare.output.study, study=trainings.studies),
    output:
        figure="results/overview.png",
        table="results/overview.csv",
    log:
        "results/logs/overview.log",
    benchmark:
        "results/timings/overview.jsonl"
    conda:
        "../envs/trueneg.yaml"
    resources:
        **growing("resources/draw"),
    params:
        code=registry.report_code(),
    message:
        "Draw the overview: {log}"
    script:
        "../workflow/scripts/overview.py"
