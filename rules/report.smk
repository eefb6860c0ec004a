# Needs figures, tables and artefacts.  Makes results/index.html, which shows every study found under results/.


rule page:
    """One self-contained page: questions, answers, figures, tables, settings and provenance."""
    input:
        plan.figures(),
        plan.tables(),
        plan.retrieval_examples(),
        studies=collect("results/{study}/artefacts/study.yaml", study=plan.studies),
    output:
        page="results/index.html",
    log:
        "results/logs/page.log",
    benchmark:
        "results/timings/page.jsonl"
    resources:
        mem_mb=plan.growing(2000),
        runtime=plan.growing(10),
    params:
        code=plan.code(provenance.REPORT),
    script:
        "../workflow/scripts/page.py"
