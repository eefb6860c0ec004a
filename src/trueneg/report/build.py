"""Build each study's figures and tables from its artefacts, and the results page from all
studies.
"""

import json
import logging
import shutil
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from trueneg.errors import UserError
from trueneg.io.files import file_checksum, write_text
from trueneg.io.seals import require_intact, sealed_files
from trueneg.report import formats, registry
from trueneg.report.declared import Drawing
from trueneg.report.drawing import footnote, save
from trueneg.report.gathered import Gathered
from trueneg.report.page import render_page, study_page

log = logging.getLogger(__name__)


def draw_study(folder: str | Path) -> None:
    """Draw a study's figures and tables whose inputs or code changed since they were last drawn;
    copy the others.

    Args:
        folder: ``results/<study>``, which holds the artefacts; files are written to ``figures``,
            ``tables`` and ``drawings``.

    Raises:
        UserError: if any figure or table cannot be drawn; raised after all others are drawn.
            Tracebacks are in the log.
    """
    folder = Path(folder)
    gathered = Gathered(folder / "artefacts")
    checksum = cache(file_checksum)
    code = registry.report_code()
    drawings = [("figures", figure) for figure in registry.figures_by_name(gathered.study).values()]
    drawings += [("tables", table) for table in registry.tables_by_name(gathered.study).values()]
    failed = []
    for kind, drawing in drawings:
        place = f"{kind}/{drawing.name}"
        kept = folder / registry.KEPT / place
        try:
            made_of = {
                "code": code,
                "title": gathered.study.title,
                "files": {file: checksum(folder / "artefacts" / file) for file in drawing.files},
            }
            _draw(drawing, kind, gathered, kept, made_of)
        except Exception as error:
            log.exception(f"{place} could not be drawn")
            failed.append(f"{place} ({type(error).__name__}: {error})")
        else:
            (folder / kind).mkdir(exist_ok=True)
            for ending in registry.FILES[kind]:
                shutil.copyfile(f"{kept}.{ending}", folder / f"{place}.{ending}")
    if failed:
        raise UserError(
            f"{folder.name}: {len(failed)} of {len(drawings)} figures and tables could not be"
            f" drawn: {'; '.join(failed)}. The others are in {folder / registry.KEPT} and will not"
            " be drawn again."
        )


def _draw(
    drawing: Drawing, kind: str, gathered: Gathered, path: Path, made_of: Mapping[str, Any]
) -> None:
    """Write the files of a figure or table unless they exist and were made from the same inputs."""
    record = path.with_suffix(".json")
    files = [path.with_suffix(f".{ending}") for ending in registry.FILES[kind]]
    is_complete = all(file.is_file() for file in (record, *files))
    if is_complete and record.read_text() == _record(made_of, files):
        return
    record.unlink(missing_ok=True)
    made = drawing.made(gathered)
    caption = drawing.heading(gathered.study.title)
    if kind == "figures":
        save(made, path, f"{gathered.study.title}: {drawing.title}")
        caption = f"{drawing.caption} {footnote(made)}"
    else:
        formats.save(made, path, caption)
    write_text(path.with_suffix(".txt"), f"{caption}\n")
    write_text(record, _record(made_of, files))


def _record(made_of: Mapping[str, Any], files: Iterable[Path]) -> str:
    """Return what a drawing was made of and the checksums of its files, as JSON."""
    return json.dumps({**made_of, "drawn": [file_checksum(file) for file in files]}, indent=1)


def write_page(path: str | Path, required: Collection[str | Path] = ()) -> None:
    """Write the page with every study in the results folder, regardless of who ran it.

    Args:
        path: HTML file to write, in the results folder.
        required: settings files (``study.yaml``) of the studies that must be on the page. Any other
            study that cannot be read (written by an earlier version, or incomplete) is listed on
            the page with the reason.

    Raises:
        UserError: if a required study cannot be read.
    """
    pages = []
    unread = {}
    needed = set(map(Path, required))
    for settings in sorted(Path(path).parent.glob("*/artefacts/study.yaml")):
        results = settings.parents[2]
        name = settings.parts[-3]
        try:
            for made in ("artefacts", *registry.FILES):
                require_intact(results, sealed_files(results, f"{name}/{made}/"))
            pages.append(study_page(settings.parent))
        except UserError as error:
            if settings in needed:
                raise
            unread[name] = str(error)
    render_page(pages, path, unread)
