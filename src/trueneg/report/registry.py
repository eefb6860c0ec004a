"""Registry of each study's figures and tables by name. The Snakefile imports it, so no plotting
library is imported here.
"""

import hashlib
import importlib
import json
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from trueneg.io.files import file_checksum
from trueneg.report import figures, tables
from trueneg.report.declared import Drawing
from trueneg.specs.settings import Study

# endings of the files of a drawing
FILES = {"figures": ("png", "pdf", "svg", "txt"), "tables": ("csv", "tex", "txt")}
KEPT = "drawings"  # subfolder of a study that keeps finished drawings if the job fails
# endings of the files that make figures, tables and the page
CODE = (".py", ".csv", ".html", ".css", ".js", ".mplstyle", ".tex")


def _by_name(package: ModuleType) -> Callable[[Study], dict[str, Drawing]]:
    """Return a function that lists a study's drawings in page order, from all modules of a package
    that declare drawings.
    """
    modules = [
        importlib.import_module(f"{package.__name__}.{name}")
        for _, name, _ in pkgutil.iter_modules(package.__path__)
    ]
    makers = sorted(
        (module for module in modules if hasattr(module, "drawings")),
        key=lambda module: module.ORDER,
    )

    def by_name(study: Study) -> dict[str, Drawing]:
        drawings: dict[str, Drawing] = {}
        of_kind = (module for module in makers if isinstance(study, module.KIND))
        for drawing in (drawing for module in of_kind for drawing in module.drawings(study)):
            if (first := drawings.setdefault(drawing.name, drawing)) is not drawing:
                raise ValueError(
                    f"{first.make.__module__} and {drawing.make.__module__} both declare"
                    f" {first.name!r}; rename one of the two."
                )
        return drawings

    return by_name


figures_by_name = _by_name(figures)
tables_by_name = _by_name(tables)


def files_by_study(studies: Mapping[str, Study]) -> dict[str, list[str]]:
    """Map each study that has figures or tables to the files they are made from, relative to its
    artefacts.
    """
    files = {}
    for name, study in studies.items():
        if drawings := [*figures_by_name(study).values(), *tables_by_name(study).values()]:
            read = {file for drawing in drawings for file in drawing.files}
            files[name] = sorted({"study.yaml", *read})
    return files


def report_code() -> str:
    """Return a digest of the files that make figures, tables and the page; if one changes, all of
    them are made again.
    """
    files = [
        path
        for package in ("report", "stats")
        for path in sorted((Path(__file__).parents[1] / package).rglob("*"))
        if path.suffix in CODE
    ]
    return hashlib.sha256("".join(map(file_checksum, files)).encode()).hexdigest()[:16]


def drawn_by_other_code(path: Path) -> bool:
    """Return whether a figure or table was drawn by other files of the report than today's."""
    record = path.parents[1] / KEPT / path.parent.name / f"{path.stem}.json"
    try:
        return json.loads(record.read_text())["code"] != report_code()
    # missing or damaged: it will be drawn again
    except (OSError, ValueError, LookupError, TypeError):
        return True
