# Needs a study's gathered rows, its experiments and other artefacts.  Makes its figures and tables, and from all of them results/index.html,
# which shows every study found under results/.


# Listed one by one, so that each can be asked for; what has not changed is copied from where the last drawing is kept.
for study, files in catalogue.files_by_study(STUDIES).items():

    rule:
        """Draw a study's figures and tables."""
        name:
            f"draw_{study}"
        input:
            collect("results/{study}/artefacts/{file}", study=study, file=files),
        output:
            [
                report(
                    f"results/{study}/{kind}/{name}.{FORMATS[kind][0]}",
                    caption=f"../workflow/captions/{kind}.rst",
                    category=study,
                    subcategory=kind,
                    labels={kind.removesuffix("s"): name},
                )
                for kind in FORMATS
                for name in LISTED[kind](STUDIES[study])
            ],
            [
                f"results/{study}/{kind}/{name}.{ending}"
                for kind in FORMATS
                for name in LISTED[kind](STUDIES[study])
                for ending in FORMATS[kind][1:]
            ],
        resources:
            **growing("resources/draw"),
        params:
            code=when_planned(catalogue.code_of, STUDIES[study]),
        script:
            "../workflow/scripts/draw.py"


rule page:
    """One self-contained page: questions, answers, figures, tables, settings and provenance."""
    input:
        drawn("figures", STUDIES),
        drawn("tables", STUDIES),
        trainings.retrieval_examples(),
        studies=collect("results/{study}/artefacts/study.yaml", study=STUDIES),
    output:
        page="results/index.html",
    resources:
        **growing("resources/page"),
    params:
        code=when_planned(provenance.fingerprint, provenance.REPORT),
    script:
        "../workflow/scripts/page.py"
