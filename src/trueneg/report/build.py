"""From a study's artefacts to its figures and tables, and from all studies to the page; each kind of study draws its own."""

from collections.abc import Collection
from pathlib import Path
from types import ModuleType
from typing import Any

from trueneg.config import configuration as config
from trueneg.errors import UserError
from trueneg.io.files import written_whole
from trueneg.report import catalogue, formats, image_study, image_text_study, likelihood_study, theory_study
from trueneg.report.drawing import footnote, save
from trueneg.report.page import render_page
from trueneg.specs.settings import Study
from trueneg.store.records import read_settings, read_study

# Each gives draw, table, heading and page.
KINDS: dict[str, ModuleType] = {
    "images": image_study,
    "theory": theory_study,
    "likelihood": likelihood_study,
    "image-text": image_text_study,
}


def draw_figure(name: str, inputs: Any, outputs: Any) -> None:
    """Draw one figure of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.figures_of`.
        inputs: ``study`` (its settings in YAML, beside its artefacts) and ``artefacts`` (files of this figure alone).
        outputs: ``png``, ``pdf``, ``svg`` and ``caption`` to write.

    Raises:
        UserError: if the study has no figure of that name.
    """
    folder, kind, study = _study(inputs.study)
    catalogue.require("figure", name, folder.parent.name, study)
    figure = kind.draw(name, folder, list(inputs.artefacts))
    heading, sentence = kind.heading(name)
    save(figure, outputs.png, f"{study.title}: {heading}")
    with written_whole(outputs.caption) as path:
        path.write_text(f"{sentence} {footnote(figure)}\n")


def write_table(name: str, inputs: Any, outputs: Any) -> None:
    """Write one table of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.tables_of`.
        inputs: ``study``, as for :func:`draw_figure`.
        outputs: ``csv``, ``markdown``, ``latex`` and ``caption`` to write.

    Raises:
        UserError: if the study has no table of that name.
    """
    folder, kind, study = _study(inputs.study)
    catalogue.require("table", name, folder.parent.name, study)
    heading, sentence = kind.heading(name)
    caption = " ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in (study.title, heading, sentence))
    formats.save(kind.table(name, folder), outputs.csv, caption)
    with written_whole(outputs.caption) as path:
        path.write_text(caption + "\n")


def write_page(path: str | Path, required: Collection[str | Path] = ()) -> None:
    """Write the page with every study that the results folder holds, whoever ran it.

    Args:
        path: HTML file to write, in the results folder.
        required: settings (``study.yaml``) of the studies that must be on it. Of the others, one that cannot be read (an earlier
            version made it, or something is missing) is named on the page with the reason.

    Raises:
        UserError: if a required study is damaged.
    """
    pages, unread, required = [], {}, set(map(Path, required))
    for found in sorted(Path(path).parent.glob("*/artefacts/study.yaml")):
        try:
            folder, kind, _ = _study(found)
            pages.append(kind.page(folder))
        except UserError as error:
            if found in required:
                raise
            unread[found.parts[-3]] = str(error)
    render_page(pages, path, unread)


def _study(path: str | Path) -> tuple[Path, ModuleType, Study]:
    """The folder of a study's artefacts, what draws it, and its settings."""
    kind = read_settings(path).get("kind", "images")
    return Path(path).parent, KINDS[kind], read_study(path, config.KINDS[kind])
