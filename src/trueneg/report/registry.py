"""Registry of each study's figures and tables by name. The Snakefile imports it, so no plotting library is imported here."""

import hashlib
import importlib
import json
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from trueneg.io.files import file_checksum
from trueneg.report import figures, tables
from trueneg.report.declared import PAIRED, Drawing, published_name
from trueneg.report.figures import by_condition, densities, estimator_errors
from trueneg.specs.settings import Study

# Theory figures that reproduce or extend those of the BCL paper; the others show bounds of Sample-Specific Debiasing (SSD).
BCL_FIGURES = tuple(drawing.name for drawing in (*densities.drawings, *estimator_errors.drawings))
# Reproduction of the BCL paper's Table 1; the second table is laid out as printed, with the paper's numbers.
BCL_TABLES = ("accuracy", published_name("bayesian-contrastive-learning", "Table 1"))
# Reproductions of SSD's Figs. 2 and 4 (image studies), Fig. 3 (image–text studies), and Tables 1, 3, 4 and 5, also as printed.
ACCURACIES = tuple(f"probe_by_{axis}_{pool}_labels" for axis in ("fraction", "label_fraction") for pool in by_condition.POOLS)
SSD_FIGURES = (*(name + end for name in (*ACCURACIES, "tradeoff") for end in ("", PAIRED)), "embedding")
SSD_PRINTED = tuple(published_name("sample-specific-debiasing", f"Table {number}") for number in (1, 3, 4, 5))
SSD_TABLES = ("tasks", "zero_shot", "grounding", "retrieval", *SSD_PRINTED)
# Reproductions of ReCo's Figs. 4, 5 and 6 (the histograms on two data sets) and Tables 1, 2 and 3.
ABLATIONS = ("ablation_batch_size", "ablation_dimensions", "ablation_strength")
RECO_FIGURES = ("similarity_histograms", *(name + end for name in ABLATIONS for end in ("", PAIRED)))
RECO_PLACES = ("Table 1", "Table 2", "Table 3", "Section 4.2", "Section 4.4")
RECO_PRINTED = tuple(published_name("relaxing-contrastiveness", place) for place in RECO_PLACES)
RECO_TABLES = ("precision", "linear_evaluation", "retrieval", *RECO_PRINTED)

FILES = {"figures": ("png", "pdf", "svg", "txt"), "tables": ("csv", "tex", "txt")}  # endings of the files of a drawing
KEPT = "drawings"  # subfolder of a study that keeps finished drawings if the job fails
CODE = (".py", ".csv", ".html", ".css", ".js", ".mplstyle")  # endings of the files that make figures, tables and the page


def _by_name(package: ModuleType) -> Callable[[Study], dict[str, Drawing]]:
    """Return a function that lists a study's drawings in page order, from all modules of a package that declare drawings."""
    modules = [importlib.import_module(f"{package.__name__}.{name}") for _, name, _ in pkgutil.iter_modules(package.__path__)]
    makers = sorted((module for module in modules if hasattr(module, "drawings")), key=lambda module: module.ORDER)

    def by_name(study: Study) -> dict[str, Drawing]:
        drawings: dict[str, Drawing] = {}
        for drawing in (drawing for module in makers for drawing in module.drawings(study)):
            if (first := drawings.setdefault(drawing.name, drawing)) is not drawing:
                declared_in = f"{first.make.__module__} and {drawing.make.__module__}"
                raise ValueError(f"{declared_in} both declare {first.name!r}; rename one of the two.")
        return drawings

    return by_name


figures_by_name = _by_name(figures)
tables_by_name = _by_name(tables)


def files_by_study(studies: Mapping[str, Study]) -> dict[str, list[str]]:
    """Map each study that has figures or tables to the files they are made from, relative to its artefacts."""
    files = {}
    for name, study in studies.items():
        if drawings := [*figures_by_name(study).values(), *tables_by_name(study).values()]:
            files[name] = sorted({"study.yaml", *(file for drawing in drawings for file in drawing.files)})
    return files


def report_code() -> str:
    """Return a digest of the files that make figures, tables and the page; if one changes, all of them are made again."""
    packages = (Path(__file__).parents[1] / name for name in ("report", "stats"))
    files = (path for package in packages for path in sorted(package.rglob("*")) if path.suffix in CODE)
    return hashlib.sha256("".join(map(file_checksum, files)).encode()).hexdigest()[:16]


def drawn_by_other_code(path: Path) -> bool:
    """Return whether a figure or table was drawn by other files of the report than today's."""
    record = path.parents[1] / KEPT / path.parent.name / f"{path.stem}.json"
    try:
        return json.loads(record.read_text())["code"] != report_code()
    except (OSError, ValueError, LookupError, TypeError):  # missing or damaged: it will be drawn again
        return True
