"""From a study's artefacts to its figures and tables, and from all studies to the page; each kind of study draws its own."""

from pathlib import Path
from types import ModuleType
from typing import Any

from trueneg.files import written_whole
from trueneg.report import formats, image_study, image_text_study, likelihood_study, theory_study
from trueneg.report.drawing import footnote, save
from trueneg.report.page import render_page
from trueneg.study.records import read_settings

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
    """
    folder, kind, title = _study(inputs.study)
    figure = kind.draw(name, folder, list(inputs.artefacts))
    heading, sentence = kind.heading(name)
    save(figure, outputs.png, f"{title}: {heading}")
    with written_whole(outputs.caption) as path:
        path.write_text(f"{sentence} {footnote(figure)}\n")


def write_table(name: str, inputs: Any, outputs: Any) -> None:
    """Write one table of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.tables_of`.
        inputs: ``study``, as for :func:`draw_figure`.
        outputs: ``csv``, ``markdown``, ``latex`` and ``caption`` to write.
    """
    folder, kind, title = _study(inputs.study)
    heading, sentence = kind.heading(name)
    caption = " ".join(part if part.endswith((".", "?", "!")) else f"{part}." for part in (title, heading, sentence))
    formats.save(kind.table(name, folder), outputs.csv, caption)
    with written_whole(outputs.caption) as path:
        path.write_text(caption + "\n")


def write_page(path: str | Path) -> None:
    """Write the page with every study that the results folder holds, whoever ran it.

    Args:
        path: HTML file to write, in the results folder.
    """
    studies = [_study(found) for found in sorted(Path(path).parent.glob("*/artefacts/study.yaml"))]
    render_page([kind.page(folder) for folder, kind, _ in studies], path)


def _study(path: str | Path) -> tuple[Path, ModuleType, str]:
    """The folder of a study's artefacts, what draws it, and its title."""
    settings = read_settings(path)
    return Path(path).parent, KINDS[settings.get("kind", "images")], settings["title"]
