"""Registry of each study's figures and tables by name. The Snakefile imports it, so no plotting library is imported here."""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from types import ModuleType

from trueneg.report import figures, tables
from trueneg.report.declared import PAIRED, Drawing
from trueneg.specs.settings import Study
from trueneg.store.provenance import drawing_code

# Theory figures that reproduce or extend those of the BCL paper; the other theory figures show bounds of the first paper.
BCL_FIGURES = (
    "class_conditional_densities",
    "observation_densities",
    "density_ratio",
    "importance_weights",
    "mean_squared_errors",
    "estimated_means",
    "bias_by_negatives",
    "errors_by_positives",
    "errors_by_assumed_alpha",
    "best_estimators",
)
# Reproductions of the first paper's Fig. 3 and Tables 1, 3, 4 and 5; the last table compares our numbers with published ones.
SSD_FIGURES = ("tradeoff", f"tradeoff{PAIRED}")
SSD_TABLES = ("tasks", "contrasts", "zero_shot", "grounding", "retrieval", "published")
# Reproductions of ReCo's Figs. 4, 5 and 6 (the histograms on two data sets) and Tables 1, 2 and 3.
ABLATIONS = ("ablation_batch_size", "ablation_dimensions", "ablation_strength")
RECO_FIGURES = ("similarity_histograms", *(name + end for name in ABLATIONS for end in ("", PAIRED)))
RECO_TABLES = ("precision", "linear_evaluation", "retrieval", "published")


def _modules(package: ModuleType) -> list[ModuleType]:
    """Import the modules of a package that declare drawings and sort them by their ``ORDER``."""
    found = [importlib.import_module(f"{package.__name__}.{name}") for _, name, _ in pkgutil.iter_modules(package.__path__)]
    return sorted((module for module in found if hasattr(module, "drawings")), key=lambda module: module.ORDER)


_FIGURES, _TABLES = _modules(figures), _modules(tables)


def figures_by_name(study: Study) -> dict[str, Drawing]:
    """Return a study's figures in page order."""
    return _by_name(_FIGURES, study)


def tables_by_name(study: Study) -> dict[str, Drawing]:
    """Return a study's tables in page order."""
    return _by_name(_TABLES, study)


def figures_of(study: Study) -> list[str]:
    """Return the names of a study's figures."""
    return list(figures_by_name(study))


def tables_of(study: Study) -> list[str]:
    """Return the names of a study's tables."""
    return list(tables_by_name(study))


def files_by_study(studies: Mapping[str, Study]) -> dict[str, list[str]]:
    """Map each study that has figures or tables to the files they are drawn from, relative to its artefacts."""
    drawn = {name: study for name, study in studies.items() if _all(study)}
    return {name: sorted({"study.yaml", *(file for one in _all(study) for file in one.files)}) for name, study in drawn.items()}


def code_of(study: Study) -> list[str]:
    """Return the code fingerprint of each module that draws figures or tables of a study."""
    return [drawing_code(module) for module in sorted({drawing.make.__module__ for drawing in _all(study)})]


def _all(study: Study) -> tuple[Drawing, ...]:
    return (*figures_by_name(study).values(), *tables_by_name(study).values())


def _by_name(modules: Iterable[ModuleType], study: Study) -> dict[str, Drawing]:
    found: dict[str, Drawing] = {}
    for module in modules:
        for drawing in module.drawings(study):
            if drawing.name in found:
                raise ValueError(f"{module.__name__} declares {drawing.name!r}, which {found[drawing.name].make.__module__} has.")
            found[drawing.name] = drawing
    return found
