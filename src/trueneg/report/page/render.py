"""The page as a file: what each study hands over and what its artefacts hold, in one template."""

import base64
import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
import numpy as np
from PIL import Image
from scipy import stats

from trueneg.io.files import atomic_write
from trueneg.report.declared import PAIRED
from trueneg.report.formats import Table, from_frame
from trueneg.report.page.examples import data_uri, webp
from trueneg.report.page.study import StudyPage
from trueneg.store import history

HERE = Path(__file__).parent
FORMAT = 3  # of the data that a comparison reads; another page's is refused if it differs
LARGEST_DRAWING = 400_000  # bytes of an SVG; a larger one takes long to draw, and stands as PNG
THUMBNAIL = (720, 540)  # pixels at most
DEGREES_AT_MOST = 200  # of the quantiles of Student's t that a comparison uses


def render_page(studies: Sequence[StudyPage], path: str | Path, unread: Mapping[str, str] | None = None) -> Path:
    """Write the page; whole or not at all.

    Everything is inside: figures, style, script. Nothing is fetched from anywhere; the PDFs are linked by their path relative to
    the page. All text is escaped.

    Args:
        studies: in the order of the page.
        path: of the HTML file.
        unread: why other studies of that folder are not on the page, by name.

    Returns:
        The path.

    Raises:
        FileNotFoundError: if the PNG or the SVG of a figure is missing.
    """
    path = Path(path)
    loader, undefined = jinja2.FileSystemLoader(HERE), jinja2.StrictUndefined
    environment = jinja2.Environment(loader=loader, undefined=undefined, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    style, script = _joined("styles/*.css"), _joined("scripts/*.js")
    entries = [_entry(study, path.parent) for study in studies]
    known = {run["id"]: run["finished"] for study in studies for run in study.provenance.runs}
    text = environment.get_template("page.html").render(
        studies=entries,
        unread=unread or {},
        known=known,
        newest=max(known.values(), default=""),
        others=_other_runs(path.parent, known),
        format=FORMAT,
        quantiles=np.asarray(stats.t.ppf(0.975, np.arange(1, DEGREES_AT_MOST + 1))).round(5).tolist(),
        style=style,
        script=script,
        digests=[base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in (style, script)],
    )
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _entry(study: StudyPage, folder: Path) -> dict[str, Any]:
    """What the templates read of a study."""
    names = [path.stem for _, _, path in study.figures]
    bases = [name.removesuffix(PAIRED) for name in names]
    # Paired differences stand before the means that they belong to.
    places = sorted(range(len(names)), key=lambda place: (bases.index(bases[place]), names[place] == bases[place]))
    return {
        "study": study,
        "tables": sorted(study.tables, key=_turn),
        "figures": [_figure(*study.figures[place], folder) for place in places],
        "selection": None if study.selection is None else from_frame(study.selection),
    }


def _turn(entry: tuple[str, str, Table]) -> int:
    """Tables of paired differences first, then those beside printed numbers, then the others."""
    values = entry[2].values
    if "difference" in values and values["difference"].notna().all():
        return 0
    return 1 if "published" in values else 2


def _other_runs(results: Path, known: Collection[str]) -> list[Any]:
    """Runs of the store that no study on the page holds: those that are not finished, and those of studies that are not."""
    table = history.run_table(results, studies=())
    shown = table[~table["run"].isin(known)].reindex(columns=["run", "dataset", "objective", "seed", "state", "seconds"])
    return shown.astype(object).where(shown.notna(), "–").to_dict("records")


def _joined(pattern: str) -> markupsafe.Markup:
    """Files of this package, one after the other: they are code, not data, and stand in the page as they are."""
    return markupsafe.Markup("\n".join(path.read_text(encoding="utf-8").strip() for path in sorted(HERE.glob(pattern))))


def _figure(title: str, caption: str, png: Path, folder: Path) -> dict[str, Any]:
    """The SVG, sharp at any size, unless it is large; else the PNG. And a small picture for the overview."""
    with Image.open(png) as image:
        description = image.info.get("Description") or f"{title}. {caption}"
        width, height = image.size
        image.thumbnail(THUMBNAIL)
        thumbnail = webp(image.convert("RGB"))
    drawing = png.with_suffix(".svg")
    is_small = drawing.stat().st_size <= LARGEST_DRAWING
    data = data_uri(drawing.read_bytes(), "svg+xml") if is_small else data_uri(png.read_bytes(), "png")
    link = Path(os.path.relpath(png.with_suffix(".pdf"), folder)).as_posix()
    made = {"description": description, "data": data, "thumbnail": thumbnail, "width": width, "height": height}
    return {"title": title, "caption": caption, "link": link, **made}
