"""Registry of each study's figures and tables by name. The Snakefile imports it, so no plotting library is imported here."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from types import ModuleType

from trueneg.report import figures, tables
from trueneg.report.declared import PAIRED, Drawing
from trueneg.report.figures import by_condition, densities, estimator_errors
from trueneg.specs.settings import Study
from trueneg.store.provenance import drawing_code

# Theory figures that reproduce or extend those of the BCL paper; the others show bounds of Sample-Specific Debiasing (SSD).
BCL_FIGURES = tuple(drawing.name for drawing in (*densities.drawings, *estimator_errors.drawings))
# Reproduction of the BCL paper's Table 1; the second table compares our numbers with published ones.
BCL_TABLES = ("accuracy", "published")
# Reproductions of SSD's Figs. 2 and 4 (image studies), Fig. 3 (image–text studies), and Tables 1, 3, 4 and 5; the
# last table compares our numbers with published ones.
ACCURACIES = tuple(f"probe_by_{axis}_{pool}_labels" for axis in ("fraction", "label_fraction") for pool in by_condition.POOLS)
SSD_FIGURES = (*(name + end for name in (*ACCURACIES, "tradeoff") for end in ("", PAIRED)), "embedding")
SSD_TABLES = ("tasks", "contrasts", "zero_shot", "grounding", "retrieval", "published")
# Reproductions of ReCo's Figs. 4, 5 and 6 (the histograms on two data sets) and Tables 1, 2 and 3.
ABLATIONS = ("ablation_batch_size", "ablation_dimensions", "ablation_strength")
RECO_FIGURES = ("similarity_histograms", *(name + end for name in ABLATIONS for end in ("", PAIRED)))
RECO_TABLES = ("precision", "linear_evaluation", "retrieval", "published")


def _by_name(package: ModuleType) -> Callable[[Study], dict[str, Drawing]]:
    """Return a function that lists a study's drawings in page order, from all modules of a package that declare drawings."""
    found = [importlib.import_module(f"{package.__name__}.{name}") for _, name, _ in pkgutil.iter_modules(package.__path__)]
    modules = sorted((module for module in found if hasattr(module, "drawings")), key=lambda module: module.ORDER)

    def by_name(study: Study) -> dict[str, Drawing]:
        drawings: dict[str, Drawing] = {}
        for drawing in (drawing for module in modules for drawing in module.drawings(study)):
            if (known := drawings.setdefault(drawing.name, drawing)) is not drawing:
                makers = f"{known.make.__module__} and {drawing.make.__module__}"
                raise ValueError(f"{makers} both declare {drawing.name!r}; rename one of the two.")
        return drawings

    return by_name


figures_by_name = _by_name(figures)
tables_by_name = _by_name(tables)


def files_by_study(studies: Mapping[str, Study]) -> dict[str, list[str]]:
    """Map each study that has figures or tables to the files they are made from, relative to its artefacts."""
    drawn = {name: _all(study) for name, study in studies.items()}
    return {
        name: sorted({"study.yaml", *(file for one in found for file in one.files)}) for name, found in drawn.items() if found
    }


def code_of(study: Study) -> list[str]:
    """Return the code fingerprint of each module that makes figures or tables of a study."""
    return [drawing_code(module) for module in sorted({drawing.make.__module__ for drawing in _all(study)})]


def _all(study: Study) -> tuple[Drawing, ...]:
    return (*figures_by_name(study).values(), *tables_by_name(study).values())
