"""The finding of each study in one sentence, for the page and the terminal."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.theory_study import TheoryStudy
from trueneg.errors import UserError
from trueneg.legible import legible
from trueneg.report.answers import LEVEL, finding, knowing_the_labels
from trueneg.report.gathered import Gathered
from trueneg.report.metrics import ends, written
from trueneg.report.tables.assumption import summaries_of


def sentence(gathered: Gathered) -> str:
    """Answer a study's question in one plain sentence; empty if the study has no answer."""
    if isinstance(gathered.study, TheoryStudy):
        return _of_errors(default_errors(gathered))
    if not isinstance(gathered.study, LikelihoodStudy):
        return _of_contrast(gathered)
    return _of_correlations(correlations(gathered)) if gathered.study.reports.classes_known else ""


def report(results: str | Path, studies: Iterable[str]) -> str:
    """Return, for the terminal, the finding of each study on the page and a link to it; empty before the page is written.

    For a study that cannot be read, the reason takes the place of the finding.
    """
    page = Path(results) / "index.html"
    if not page.is_file():
        return ""
    lines = []
    for name in studies:
        folder = page.parent / name / "artefacts"
        if not (folder / "study.yaml").is_file():
            continue
        try:
            found = sentence(Gathered(folder))
        except UserError as error:
            found = str(error)
        lines.append(legible(f"{name}: {found or 'no answer in one sentence.'}") + f"\n    {page}#{name}\n")
    return "".join(lines)


def default_errors(gathered: Gathered) -> pd.DataFrame:
    """Return a theory study's mean squared error of each estimator in the default setting."""
    numbers = gathered.experiment("protocol_numbers")
    return numbers[(numbers["quantity"] == "mean squared error") & (numbers["setting"] == "default")]


def correlations(gathered: Gathered) -> pd.DataFrame:
    """Return a likelihood study's rank correlation of each scorer on sentences that affirm a finding, in the first corpus."""
    summary = gathered.read(*summaries_of(gathered.study))
    return summary[(summary["corpus"] == summary["corpus"].iloc[0]) & (summary["sentences"] == "findings only")]


def _of_contrast(gathered: Gathered) -> str:
    """State the primary contrast, and what knowing the labels gains on the same data set."""
    primary, contrast = gathered.study.primary, gathered.comparison["primary"]
    clauses = [finding(contrast, primary.treatment, primary.baseline)]
    if primary.treatment != primary.oracle:
        headroom = gathered.headroom
        of_dataset = headroom[headroom["dataset"] == contrast["dataset"]].iloc[0]
        clauses.append(knowing_the_labels(of_dataset, contrast["metric"]))
    return f"{'; '.join(filter(None, clauses))}."


def _of_errors(errors: pd.DataFrame) -> str:
    """Name the estimators with the smallest and the largest error."""
    by_error = errors.sort_values("value", kind="stable")[["estimator", "value"]].itertuples(index=False, name=None)
    (best, smallest), *_, (worst, largest) = by_error
    return (
        f"In the default setting, the smallest mean squared error is that of {best}, {smallest:.2g}, and the largest that of "
        f"{worst}, {largest:.2g}."
    )


def _of_correlations(found: pd.DataFrame) -> str:
    """State the rank correlation of the first scorer, a language model, and the best of the others."""
    first = found.iloc[0]
    others = found.iloc[1:].dropna(subset="spearman").sort_values("spearman", ascending=False, kind="stable")
    relation = "rises with" if first["low"] > 0 else "falls with" if first["high"] < 0 else "has no clear relation to"
    clauses = [
        f"The likelihood under {first['scorer']} {relation} the class probability (rank correlation "
        f"{written(first['spearman'], 'ρ')}, {LEVEL} interval {ends(first['low'], first['high'], 'ρ', signed=False)})"
    ]
    if len(others):
        best = others.iloc[0]
        reach = ends(best["low"], best["high"], "ρ", signed=False)
        clauses.append(f"the largest other correlation is that of {best['scorer']}, {written(best['spearman'], 'ρ')} ({reach})")
    return f"{'; '.join(clauses)}."
