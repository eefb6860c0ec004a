"""From the experiments of a theory study to its figures, its tables and its part of the page."""

from pathlib import Path

import pandas as pd
import yaml
from matplotlib.figure import Figure

from trueneg.config.theory_study import TheoryStudy
from trueneg.report import theory
from trueneg.report.formats import Table
from trueneg.report.page import PageFigure, PageTable, StudyPage
from trueneg.specs import experiments as catalogue
from trueneg.store.records import read_rows


def draw(name: str, folder: Path, artefacts: list[str]) -> Figure:
    """One figure of :data:`trueneg.specs.experiments.FIGURES`.

    Args:
        name: of the figure.
        folder: the study's artefacts.
        artefacts: the experiment's frame (parquet).
    """
    (path,) = artefacts
    return theory.FIGURES[name].draw(read_rows(path))


def heading(name: str) -> tuple[str, str]:
    """Title of a figure or table, and a sentence on what to see in it."""
    described = (theory.FIGURES | theory.TABLES)[name]
    return described.title, described.caption


def table(name: str, folder: Path) -> Table:
    """One table of :data:`trueneg.specs.experiments.TABLES`.

    Args:
        name: of the table.
        folder: the study's artefacts.
    """
    return theory.TABLES[name].draw(read_rows(folder / "simulation" / f"{catalogue.TABLES[name]}.parquet"))


def page(folder: Path) -> StudyPage:
    """What the page shows of the study with these artefacts."""
    config = (folder / "study.yaml").read_text()
    study = TheoryStudy.model_validate(yaml.safe_load(config))
    figures = folder.parent / "figures"
    drawn = [name for name in catalogue.FIGURES if (figures / f"{name}.png").is_file()]
    return StudyPage(
        name=folder.parent.name,
        title=study.title,
        question=study.question,
        answer=_answer(read_rows(folder / "simulation/protocol_numbers.parquet")),
        warnings=[study.note] if study.note else [],
        figures=[PageFigure(*heading(name), figures / f"{name}.png", figures / f"{name}.pdf") for name in drawn],
        tables=[PageTable(*heading(name), table(name, folder)) for name in catalogue.TABLES],
        config=config,
    )


def _answer(numbers: pd.DataFrame) -> str:
    """The errors at the study's own setting, and whether the numbers known before were met again."""
    errors = numbers[(numbers["quantity"] == "mean squared error") & (numbers["setting"] == "default")]
    listed = ", ".join(f"{row['estimator']} {row['value']:.2g}" for _, row in errors.iterrows())
    return (
        f"Mean squared errors at the process's setting: {listed}. The order changes with the numbers of positives and negatives "
        f"and with what is known of α. {numbers['agrees'].sum()} of {len(numbers)} numbers that were known before were met again."
    )
