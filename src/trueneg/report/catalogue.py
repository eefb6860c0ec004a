"""Which figures and tables a study gets, by exact name. The Snakefile asks here, so nothing that draws is imported."""

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from types import ModuleType

from trueneg.report import figures, tables
from trueneg.report.declared import PAIRED, Drawing
from trueneg.specs.settings import Study
from trueneg.store.provenance import drawing_code

# Figures of a theory study that repeat or extend the BCL paper's; the others are about bounds of the first paper.
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
# What repeats the first paper's Fig. 3 and its Tables 1, 3, 4 and 5; the last stands beside what it prints.
SSD_FIGURES = ("tradeoff", f"tradeoff{PAIRED}")
SSD_TABLES = ("tasks", "contrasts", "zero_shot", "grounding", "retrieval", "published")
# What repeats ReCo's Figs. 4, 5 and 6 (the histograms on two data sets) and its Tables 1, 2 and 3.
ABLATIONS = ("ablation_batch_size", "ablation_dimensions", "ablation_strength")
RECO_FIGURES = ("similarity_histograms", *(name + end for name in ABLATIONS for end in ("", PAIRED)))
RECO_TABLES = ("precision", "linear_evaluation", "retrieval", "published")


def _modules(package: ModuleType) -> list[ModuleType]:
    """The modules of a package that declare drawings, in the order that they ask for."""
    found = [importlib.import_module(f"{package.__name__}.{name}") for _, name, _ in pkgutil.iter_modules(package.__path__)]
    return sorted((module for module in found if hasattr(module, "drawings")), key=lambda module: module.ORDER)


_FIGURES, _TABLES = _modules(figures), _modules(tables)


def figures_by_name(study: Study) -> dict[str, Drawing]:
    """A study's figures in the order of the page."""
    return _by_name(_FIGURES, study)


def tables_by_name(study: Study) -> dict[str, Drawing]:
    """A study's tables in the order of the page."""
    return _by_name(_TABLES, study)


def figures_of(study: Study) -> list[str]:
    """Names of a study's figures."""
    return list(figures_by_name(study))


def tables_of(study: Study) -> list[str]:
    """Names of a study's tables."""
    return list(tables_by_name(study))


def files_by_study(studies: Mapping[str, Study]) -> dict[str, list[str]]:
    """For each study that has figures or tables, what they are drawn from, relative to its artefacts."""
    drawn = {name: study for name, study in studies.items() if _all(study)}
    return {name: sorted({"study.yaml", *(file for one in _all(study) for file in one.files)}) for name, study in drawn.items()}


def code_of(study: Study) -> list[str]:
    """The modules that make the figures and tables of a study, each with its fingerprint."""
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
