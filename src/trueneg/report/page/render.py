"""The page as a file: what each study hands over and what its artefacts hold, in one template."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from PIL import Image

from trueneg.io.files import written_whole
from trueneg.report.formats import Table, from_frame
from trueneg.report.page import inline
from trueneg.report.page.artefacts import Artefacts
from trueneg.report.page.content import PageFigure, StudyPage
from trueneg.report.page.contrasts import compared_values, glance, measurements, ordered, t_quantiles
from trueneg.report.page.curves import curves_of
from trueneg.report.page.examples import examples_of
from trueneg.report.page.marks import marks_of
from trueneg.report.page.origins import Origins, files_of
from trueneg.report.page.run_list import other_runs, runs_of

HERE = Path(__file__).parent
STYLES = ("base.css", "study.css", "tools.css")
SCRIPTS = ("dom.js", "data.js", "origins.js", "runs.js", "chart.js", "curves.js", "compare.js", "examples.js", "views.js")
FORMAT = 2  # of the data inside the page; another page's is refused if it differs
LARGEST_DRAWING = 400_000  # bytes of an SVG; a larger one takes long to draw, and stands as PNG


def render_page(studies: Sequence[StudyPage], path: str | Path, unread: Mapping[str, str] | None = None) -> Path:
    """Write the page; whole or not at all.

    Everything is inside: figures, style, script, and as JSON the runs, curves and examples that lie in ``<name>/artefacts``
    beside the page. Nothing is fetched from anywhere; the PDFs are linked by their path relative to the page. All text is
    escaped.

    Args:
        studies: in the order of the page.
        path: of the HTML file; its folder is made.
        unread: why other studies of that folder are not on the page, by name.

    Returns:
        The path.

    Raises:
        FileNotFoundError: if the PNG of a figure is missing.
        UserError: if a file of examples is damaged, or does not say whether it is restricted.
    """
    path = Path(path)
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    entries = [_entry(study, path.parent) for study in studies]
    known = [row[0] for entry in entries for row in entry["runs"]["rows"]]
    others = other_runs(path.parent, known)
    style, script = inline.joined(HERE / "styles", STYLES), inline.joined(HERE / "scripts", SCRIPTS)
    text = environment.get_template("page.html").render(
        studies=entries,
        unread=unread or {},
        totals=_totals(known, others, entries),
        data=inline.json_text({"format": FORMAT, "others": others, "t": t_quantiles()}),
        style=style,
        script=script,
        policy=inline.content_policy(style, script),
    )
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _entry(study: StudyPage, folder: Path) -> dict[str, Any]:
    """What the templates read of a study."""
    artefacts = Artefacts.read(folder / study.name / "artefacts")
    tables = [(title, caption, _table(content)) for title, caption, content in study.tables]
    values = compared_values(table.values for _, _, table in tables)
    origins, primary = Origins(artefacts), artefacts.comparison.get("primary", {})
    runs, examples = runs_of(artefacts), examples_of(artefacts)
    differences = glance(values, artefacts, origins)
    entry = {
        "study": study,
        "marks": marks_of(artefacts),
        "glance": differences,
        "tables": [
            {
                "title": title,
                "caption": caption,
                "table": table,
                "origins": origins.of_table(table),
                # A study that has no glance begins with its first table.
                "open": "published" in table.values or (place == 0 and not differences),
            }
            for place, (title, caption, table) in enumerate(ordered(tables))
        ],
        "figures": [_figure(figure, folder) for figure in _twins_first([PageFigure(*one) for one in study.figures])],
        "selection": None if study.selection is None else from_frame(study.selection),
        "runs": runs,
        "runs_count": len(runs["rows"]),
        "whole": origins.of_runs() if artefacts.settings else None,
        "restricted": examples["restricted"],
        "shows_examples": bool(examples["retrieval"] or examples["grounding"]),
    }
    data = {
        "format": FORMAT,
        "name": study.name,
        "title": study.title,
        "question": study.question,
        "answer": study.answer,
        "marks": entry["marks"],
        "settings": artefacts.settings,
        "primary": {"runs": origins.places(f"{primary.get('runs', '')} {primary.get('baseline runs', '')}")},
        "measurements": measurements(values, primary.get("baseline", "")),
        "runs": runs,
        "curves": curves_of(artefacts),
        "origins": origins.listed,
        "files": files_of(artefacts),
        "examples": examples,
    }
    return entry | {"data": inline.json_text(_plain(data))}


def _totals(known: Sequence[str], others: Sequence[Mapping[str, Any]], entries: Sequence[Mapping[str, Any]]) -> str:
    """How much there is, in a sentence; empty if there is no run."""
    if not known:
        return ""
    finished = max(row[entry["runs"]["columns"].index("finished")] for entry in entries for row in entry["runs"]["rows"])
    more = f", and {len(others):,} more in the store" if others else ""
    return f"{len(set(known)):,} runs{more}; the newest finished {finished}."


def _table(content: Table | pd.DataFrame) -> Table:
    return from_frame(content) if isinstance(content, pd.DataFrame) else content


def _twins_first(figures: Sequence[PageFigure]) -> list[PageFigure]:
    """Paired differences (files that end in ``_differences``) before the means that they belong to; the rest as it was."""
    bases = [Path(figure.png).stem.removesuffix("_differences") for figure in figures]
    places = sorted(range(len(figures)), key=lambda one: (bases.index(bases[one]), Path(figures[one].png).stem == bases[one]))
    return [figures[place] for place in places]


def _figure(figure: PageFigure, folder: Path) -> dict[str, Any]:
    """The SVG, sharp at any size, unless it is large; else the PNG."""
    with Image.open(figure.png) as image:
        description = image.info.get("Description") or f"{figure.title}. {figure.caption}"
        width, height = image.size
    drawing = Path(figure.png).with_suffix(".svg")
    if drawing.is_file() and drawing.stat().st_size <= LARGEST_DRAWING:
        data = inline.data_uri(drawing.read_bytes(), "svg+xml")
    else:
        data = inline.data_uri(Path(figure.png).read_bytes(), "png")
    return {
        "title": figure.title,
        "caption": figure.caption,
        "description": description,
        "data": data,
        "width": width,
        "height": height,
        "pdf": Path(os.path.relpath(figure.pdf, folder)).as_posix(),
    }


def _plain(value: Any) -> Any:
    """With what JSON lacks replaced: numbers that are not finite by none, NumPy's by Python's, dates of YAML by text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, str | int | bool) or value is None:
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else None
    return value.item() if hasattr(value, "item") else str(value)
