# Needs figures, tables and artefacts.  Makes results/index.html, which shows every study found under results/.


rule page:
    """One self-contained page: questions, answers, figures, tables, settings and provenance."""
    input:
        figures_of_studies,
        tables_of_studies,
        comparisons=collect("results/{study}/artefacts/comparison.json", study=studies),
        code=report_fingerprint(),
    output:
        page="results/index.html",
    params:
        results="results",
    resources:
        mem_mb=2000,
        runtime=10,
    log:
        "results/logs/page.log",
    benchmark:
        "results/timings/page.jsonl"
    script:
        "../workflow/scripts/page.py"
