"""What a study hands to the page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from trueneg.report.formats import Table


class PageFigure(NamedTuple):
    """A figure of the page; the PNG's own description becomes its alternative text."""

    title: str
    caption: str
    png: str | Path
    pdf: str | Path


class PageTable(NamedTuple):
    """A table of the page; a plain frame's first column names its lines."""

    title: str
    caption: str
    table: Table | pd.DataFrame


@dataclass(frozen=True)
class StudyPage:
    """What the page shows of a study, beside what lies in ``<name>/artefacts`` next to the page (runs, curves, examples).

    Attributes:
        name: as in the configuration; its place on the page (``index.html#name``) and its folder.
        title: heading.
        question: what the study asks.
        answer: what it found, in a sentence.
        gate: whether it can tell, a sentence a data set.
        warnings: what a reader must know first, such as stale runs or too few seeds.
        figures: in the order of the page, but that paired differences go before the means that they belong to.
        tables: in any order: the page puts paired differences first, then what stands beside printed numbers.
        config: its configuration, as YAML.
        selection: what was chosen on the validation split.
    """

    name: str
    title: str
    question: str = ""
    answer: str = ""
    gate: Sequence[str] = ()
    warnings: Sequence[str] = ()
    figures: Sequence[PageFigure] = ()
    tables: Sequence[PageTable] = ()
    config: str = ""
    selection: pd.DataFrame | None = None
