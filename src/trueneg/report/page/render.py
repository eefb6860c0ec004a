"""Render the results page to one HTML file from the studies' pages."""

import base64
import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import markupsafe
from PIL import Image

from trueneg.io.files import write_text
from trueneg.report.page.examples import data_uri

HERE = Path(__file__).parent
CARD = (960, 960)  # maximum width and height of an image on the overview, in pixels
COLOURS = 128  # number of colours in an embedded figure


def render_page(
    studies: Sequence[Mapping[str, Any]], path: str | Path, unread: Mapping[str, str] | None = None
) -> Path:
    """Write the page atomically.

    The page is self-contained: figures, styles and scripts are embedded, and nothing is fetched
    from the network. PDFs are linked by their path relative to the page. All text is escaped.

    Args:
        studies: results of :func:`trueneg.report.page.study.study_page`, in page order.
        path: path of the HTML file.
        unread: the reason why each other study in the folder is not on the page, by name.

    Returns:
        The path of the HTML file.

    Raises:
        FileNotFoundError: if the PNG of a figure is missing.
    """
    path = Path(path)
    style = joined(HERE, "styles/*.css")
    script = joined(HERE, "scripts/*.js")
    entries = [_entry(study, path.parent) for study in studies]
    runs = {run["id"]: run["finished"] for study in studies for run in study["provenance"].runs}
    text = (
        templates(HERE)
        .get_template("page.html")
        .render(
            studies=entries,
            unread=unread or {},
            runs=runs,
            newest=max(runs.values(), default=""),
            style=style,
            script=script,
            digests=digests(style, script),
        )
    )
    write_text(path, text)
    return path


def templates(folder: Path) -> jinja2.Environment:
    """Return the templates of a folder and those that pages share; they escape all text."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, HERE]),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def joined(folder: Path, pattern: str) -> markupsafe.Markup:
    """Concatenate files of this package. They are trusted code, so they are embedded without
    escaping.
    """
    files = sorted(folder.glob(pattern))
    return markupsafe.Markup("\n".join(path.read_text(encoding="utf-8").strip() for path in files))


def digests(*contents: str) -> list[str]:
    """Return the checksums with which the content security policy allows styles and scripts."""
    return [
        base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() for content in contents
    ]


def _entry(study: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a study with its headline figure, a smaller image of it for the overview, and the
    other figures.
    """
    figures = [_figure(title, caption, png, folder) for title, caption, png in study["figures"]]
    if not figures:
        return {"study": study, "figures": [], "headline": None, "card": None}
    headline = figures.pop(study["headline"])
    _, _, png = study["figures"][study["headline"]]
    return {
        "study": study,
        "figures": figures,
        "headline": headline,
        "card": {"title": headline["title"], **embedded(png, CARD)},
    }


def _figure(title: str, caption: str, png: Path, folder: Path) -> dict[str, Any]:
    """Embed a figure, with its description and a link to its PDF."""
    with Image.open(png) as image:
        description = image.info.get("Description") or f"{title}. {caption}"
    return {
        "title": title,
        "caption": caption,
        "link": Path(os.path.relpath(png.with_suffix(".pdf"), folder)).as_posix(),
        "description": description,
        **embedded(png),
    }


def embedded(png: Path, within: tuple[int, int] | None = None) -> dict[str, Any]:
    """Encode an image, shrunk to fit `within` if given; with few colours, it takes a third of the
    SVG's bytes.
    """
    with Image.open(png) as image:
        shown = image.convert("RGB")
    if within is not None:
        shown.thumbnail(within)
    stream = io.BytesIO()
    shown.quantize(COLOURS, dither=Image.Dither.NONE).convert("RGB").save(
        stream, "WEBP", lossless=True, quality=85
    )
    return {"data": data_uri(stream.getvalue()), "width": shown.width, "height": shown.height}
