"""What the page shows of a study, from its artefacts and its figures."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.theory_study import TheoryStudy
from trueneg.report import catalogue
from trueneg.report.gathered import Gathered
from trueneg.report.labels import variant_name
from trueneg.report.metrics import with_interval
from trueneg.report.page import PageFigure, PageTable, StudyPage
from trueneg.report.tables.assumption import summaries_of
from trueneg.store import provenance
from trueneg.store.user_files import DataChanges


def study_page(folder: Path) -> StudyPage:
    """Of the study with the artefacts in this folder; the figures lie beside it."""
    gathered, figures = Gathered(folder), folder.parent / "figures"
    study = gathered.study
    trained = {} if isinstance(study, (TheoryStudy, LikelihoodStudy)) else _of_training(gathered)
    return StudyPage(
        name=folder.parent.name,
        title=study.title,
        question=study.question,
        answer=_answer(gathered),
        # A figure's footnote stands in the picture already.
        figures=[
            PageFigure(drawing.title, drawing.caption, figures / f"{name}.png", figures / f"{name}.pdf")
            for name, drawing in catalogue.figures_by_name(study).items()
            if (figures / f"{name}.png").is_file()
        ],
        tables=[
            PageTable(drawing.title, drawing.caption, drawing.made(gathered))
            for drawing in catalogue.tables_by_name(study).values()
        ],
        config=(folder / "study.yaml").read_text(),
        **{"warnings": [study.note] if study.note else []} | trained,
    )


def _of_training(gathered: Gathered) -> dict[str, Any]:
    """Gates, warnings, and what was selected."""
    selection = gathered.selection[gathered.selection["candidates"] > 1]
    chosen = [variant_name(*names) for names in zip(selection["objective"], selection["variant"], strict=True)]
    return {
        "gate": [f"{gate['dataset']}: {gate['verdict']}" for gate in gathered.comparison["gate"]],
        "warnings": _warnings(gathered),
        "selection": selection.drop(columns="variant").assign(chosen=chosen) if len(selection) else None,
    }


def _warnings(gathered: Gathered) -> list[str]:
    found = [gathered.study.note] if gathered.study.note else []
    runs: list[Mapping[str, Any]] = json.loads((gathered.folder / "runs.json").read_text())
    stale, data = sum(provenance.is_stale(run) for run in runs), DataChanges(gathered.folder.parents[1])
    if stale:
        found.append(f"{stale} of {len(runs)} runs were made with other code than today's (stale).")
    changed = [sentence for run in runs if (sentence := data.of_run(run))]
    found += [f"{count} of {len(runs)} runs: {sentence}." for sentence, count in Counter(changed).items()]
    # An exact signed-rank test cannot reach p < 0.05 with five pairs, whatever the differences.
    if gathered.comparison["seeds"] < 6:
        found.append(f"{gathered.comparison['seeds']} seeds are too few to tell an effect from noise; 8 or more can.")
    return found


def _answer(gathered: Gathered) -> str:
    """What the study found, in a sentence; empty if it asks nothing."""
    if isinstance(gathered.study, TheoryStudy):
        return _of_numbers(gathered.experiment("protocol_numbers"))
    if not isinstance(gathered.study, LikelihoodStudy):
        return gathered.comparison["primary"]["answer"]
    return _of_summary(gathered.read(*summaries_of(gathered.study))) if gathered.study.reports.classes_known else ""


def _of_numbers(numbers: pd.DataFrame) -> str:
    """The errors at a theory study's own setting, and whether the numbers known before were met again."""
    errors = numbers[(numbers["quantity"] == "mean squared error") & (numbers["setting"] == "default")]
    listed = ", ".join(f"{row['estimator']} {row['value']:.2g}" for _, row in errors.iterrows())
    return (
        f"Mean squared errors at the process's setting: {listed}. The order changes with the numbers of positives and negatives "
        f"and with what is known of α. {numbers['agrees'].sum()} of {len(numbers)} numbers that were known before were met again."
    )


def _of_summary(summary: pd.DataFrame) -> str:
    """Spearman's ρ of every scorer on the sentences that affirm a finding, in the first corpus."""
    chosen = summary[(summary["corpus"] == summary["corpus"].iloc[0]) & (summary["sentences"] == "findings only")]
    listed = "; ".join(
        f"{row['scorer']} {with_interval(row['spearman'], row['low'], row['high'], 'ρ', signed=True)}"
        for _, row in chosen.iterrows()
    )
    what = "Rank correlation of likelihood and class probability, sentences that affirm a finding"
    return f"{what}: {listed} (95 % intervals over classes)."
