"""From the tables of a likelihood study to its figures, its table and its part of the page; none of them holds text."""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from trueneg.config import runs
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.report import likelihood
from trueneg.report.catalogue import LIKELIHOOD_FIGURES, figures_of, tables_of
from trueneg.report.formats import Table
from trueneg.report.page import PageFigure, PageTable, StudyPage
from trueneg.store.records import read_rows, read_study

HEADINGS = {
    "assumption_all_sentences": (
        "Class probability against likelihood, all sentences",
        "The first paper assumes a straight line here: one panel a scorer, with the fitted a·p^k.",
    ),
    "assumption_findings": (
        "Class probability against likelihood, sentences that affirm a finding",
        "Without denials and filler, whose likelihoods and frequencies both are high.",
    ),
    "assumption": (
        "Does a likely sentence belong to a common class?",
        "Rank correlation, the fitted a and k, and what the fit misses, for language models and for what is simpler.",
    ),
}


def draw(name: str, folder: Path, artefacts: list[str]) -> Figure:
    """One of :data:`trueneg.report.catalogue.LIKELIHOOD_FIGURES`, for the study's first corpus.

    Args:
        name: of the figure.
        folder: the study's artefacts.
        artefacts: a summary (parquet) for each corpus, beside its points and its calibration.
    """
    corpus = Path(artefacts[0]).parent
    points, summary, calibration = (read_rows(corpus / f"{table}.parquet") for table in ("points", "summary", "calibration"))
    label = summary["corpus"].iloc[0]
    note = _study(folder)[1].note
    return likelihood.class_probability_by_likelihood(points, summary, calibration, label, LIKELIHOOD_FIGURES[name], note=note)


def heading(name: str) -> tuple[str, str]:
    """Title of a figure or table, and a sentence on what to see in it."""
    return HEADINGS[name]


def table(name: str, folder: Path) -> Table:
    """The table of all corpora and scorers.

    Args:
        name: ``"assumption"``.
        folder: the study's artefacts.
    """
    return likelihood.assumption_table(_summaries(folder))


def page(folder: Path) -> StudyPage:
    """What the page shows of the study with these artefacts."""
    config, study = _study(folder)
    figures = folder.parent / "figures"
    drawn = [name for name in figures_of(study) if (figures / f"{name}.png").is_file()]
    tables = tables_of(study)
    return StudyPage(
        name=folder.parent.name,
        title=study.title,
        question=study.question,
        answer=_answer(_summaries(folder)) if tables else "",
        warnings=[study.note] if study.note else [],
        figures=[PageFigure(*heading(name), figures / f"{name}.png", figures / f"{name}.pdf") for name in drawn],
        tables=[PageTable(*heading(name), table(name, folder)) for name in tables],
        config=config,
    )


def _study(folder: Path) -> tuple[str, LikelihoodStudy]:
    study = read_study(folder / "study.yaml", LikelihoodStudy)
    return (folder / "study.yaml").read_text(), study


def _summaries(folder: Path) -> pd.DataFrame:
    corpora = runs.corpora(_study(folder)[1])
    return pd.concat([read_rows(folder / "assumption" / corpus / "summary.parquet") for corpus in corpora], ignore_index=True)


def _answer(summary: pd.DataFrame) -> str:
    """Spearman's ρ of every scorer on the sentences that affirm a finding, in the first corpus."""
    chosen = summary[(summary["corpus"] == summary["corpus"].iloc[0]) & (summary["sentences"] == "findings only")]
    listed = "; ".join(
        f"{row['scorer']} {row['spearman']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]" for _, row in chosen.iterrows()
    ).replace("-0", "−0")
    what = "Rank correlation of likelihood and class probability, sentences that affirm a finding"
    return f"{what}: {listed} (95 % intervals over classes)."
