"""The results page: one file that opens from disk, with every study's question, answer, figures, tables and provenance."""

import base64
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import pandas as pd
from PIL import Image

from trueneg.files import written_whole
from trueneg.report.formats import Table, from_frame


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
    """What the page shows of a study, from top to bottom.

    Attributes:
        name: as in the configuration; its place on the page (``index.html#name``).
        title: heading.
        question: what the study asks.
        answer: what it found, in a sentence.
        gate: whether it can tell, a sentence a data set.
        warnings: what a reader must know first, such as stale runs or too few seeds.
        figures: in the order of the page.
        tables: in the order of the page.
        config: its configuration, as YAML.
        provenance: a mapping a run, all with the same keys: what made it.
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
    provenance: Sequence[Mapping[str, Any]] = ()
    selection: pd.DataFrame | None = None


def render_page(studies: Sequence[StudyPage], path: str | Path) -> Path:
    """Write the page; whole or not at all.

    Images are inlined, and nothing is fetched from anywhere; the PDFs are linked by their path relative to
    the page. All text is escaped.

    Args:
        studies: in the order of the page.
        path: of the HTML file; its folder is made.

    Returns:
        The path.

    Raises:
        FileNotFoundError: if the PNG of a figure is missing.
    """
    path = Path(path)
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trueneg.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text = environment.get_template("page.html").render(studies=[_shown(study, path.parent) for study in studies])
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _shown(study: StudyPage, folder: Path) -> dict[str, Any]:
    """What the template reads: everything as text, images as data."""
    return {
        "study": study,
        "figures": [_figure(PageFigure(*figure), folder) for figure in study.figures],
        "tables": [{"title": title, "caption": caption, "table": _table(content)} for title, caption, content in study.tables],
        "selection": None if study.selection is None else from_frame(study.selection),
        "runs": _runs(study.provenance),
    }


def _table(content: Table | pd.DataFrame) -> Table:
    return from_frame(content) if isinstance(content, pd.DataFrame) else content


def _figure(figure: PageFigure, folder: Path) -> dict[str, Any]:
    with Image.open(figure.png) as image:
        description = image.info.get("Description") or f"{figure.title}. {figure.caption}"
        width, height = image.size
    return {
        "title": figure.title,
        "caption": figure.caption,
        "description": description,
        "data": base64.b64encode(Path(figure.png).read_bytes()).decode(),
        "width": width,
        "height": height,
        "pdf": Path(os.path.relpath(figure.pdf, folder)).as_posix(),
    }


def _runs(provenance: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Head and lines of the table of runs; a run that lacks a key has an empty place there."""
    keys = list(dict.fromkeys(key for run in provenance for key in run))
    return {"head": keys, "lines": [[_entry(run.get(key, "")) for key in keys] for run in provenance]}


def _entry(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {inner}" for key, inner in value.items())
    return f"{value:.4g}" if isinstance(value, float) else str(value)
