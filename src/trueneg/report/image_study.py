"""From a study's gathered tables to its figures, its tables and the page: what each name in the catalogue draws."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from trueneg.config import runs
from trueneg.config.image_study import ImageStudy
from trueneg.report import catalogue, figures, formats, tables
from trueneg.report import curves as curve_figures
from trueneg.report.drawing import Drawing
from trueneg.report.gathered import Gathered, page_of, twins
from trueneg.report.page import StudyPage
from trueneg.stats.measurement import Measurement
from trueneg.store.records import read_rows

# Title of each table, and a sentence on what to see in it.
TABLES = {
    "accuracy": (
        "Accuracy of every objective, with paired differences",
        "The primary measurement leads; the rest is exploratory.",
    ),
    "published": (
        "Beside the printed table",
        "Our numbers and the paper's, in the study's own setting: where data, network or length differ, they need not agree.",
    ),
    "differences": (
        "Every paired difference, with its tests",
        "The same numbers with their spread and what could have been seen.",
    ),
}
POOLS = {"all": "labels of all training images", "imbalanced": "labels of the imbalanced subset"}  # as titles call them


def draw(name: str, folder: Path, artefacts: list[str]) -> Figure:
    """One figure of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.figures_of`.
        folder: the study's artefacts, with the gathered tables.
        artefacts: files of this figure alone.
    """
    return FIGURES[name].draw(read(folder), artefacts)


def heading(name: str) -> tuple[str, str]:
    """Title of a figure or table, and a sentence on what to see in it."""
    return TABLES[name] if name in TABLES else (FIGURES[name].title, FIGURES[name].caption)


def _primary_by_fraction(gathered: Gathered, _: list[str], paired: bool) -> Figure:
    return _by_condition(gathered, _fractions(gathered), gathered.primary, paired)


def _primary_by_negatives(gathered: Gathered, _: list[str], paired: bool) -> Figure:
    return _by_condition(gathered, runs.negative_counts(gathered.study), gathered.primary, paired, figures.NEGATIVES_AXIS)


def _probe_by_fraction(gathered: Gathered, _: list[str], paired: bool, pool: str) -> Figure:
    return _by_condition(gathered, _fractions(gathered), _full_probe(gathered, pool), paired)


def _fractions(gathered: Gathered) -> dict[str, float]:
    return {label: settings.fraction for label, settings in runs.datasets(gathered.study).items()}


def _by_condition(
    gathered: Gathered,
    places: Mapping[str, float],
    measured: Measurement,
    paired: bool,
    axis: figures.ConditionAxis = figures.FRACTION_AXIS,
) -> Figure:
    baseline = gathered.baseline if paired else None
    return figures.accuracy_by_condition(gathered.rows, places, measured, baseline, axis=axis, note=gathered.note)


def _probe_by_label_fraction(gathered: Gathered, _: list[str], paired: bool, pool: str) -> Figure:
    dataset = gathered.study.figures.label_fractions.dataset or gathered.dataset
    measured, baseline = Measurement("linear probe", "accuracy", pool), gathered.baseline if paired else None
    return figures.accuracy_by_label_fraction(gathered.rows, dataset, measured, baseline, note=gathered.note)


def _class_groups(gathered: Gathered, _: list[str]) -> Figure:
    return figures.class_accuracy(gathered.rows, gathered.dataset, gathered.baseline, gathered.primary, note=gathered.note)


def _embedding(gathered: Gathered, artefacts: list[str]) -> Figure:
    wanted = gathered.study.figures.embedding
    coordinates = pd.concat(map(read_rows, artefacts), ignore_index=True)
    return figures.embedding(coordinates, wanted.dataset or gathered.dataset, wanted.objectives, note=gathered.study.note)


def _curves(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    def drawing(gathered: Gathered, _: list[str]) -> Figure:
        return draw(gathered.curves, note=gathered.note)

    return drawing


def _true_negative_mean(gathered: Gathered, _: list[str]) -> Figure:
    return curve_figures.true_negative_mean(gathered.curves, gathered.dataset, note=gathered.note)


def _of_pools(name: str, draw: Callable[..., Figure], title: str, caption: str) -> dict[str, Drawing]:
    """:func:`twins` for each pool of labels; `draw` takes the keyword ``pool``."""
    found: dict[str, Drawing] = {}
    for pool, labels in POOLS.items():
        found |= twins(catalogue.of_pool(name, pool), partial(draw, pool=pool), f"{title}, {labels}", caption)
    return found


FIGURES: dict[str, Drawing] = {
    **twins(
        "primary_by_fraction",
        _primary_by_fraction,
        "The primary measurement against the imbalance r",
        "Lines that part towards small r would say that the correction matters where classes are uneven.",
    ),
    **twins(
        "primary_by_negatives",
        _primary_by_negatives,
        "The primary measurement against the number of negatives",
        "BCL's Table 1 as curves: whether a correction matters more where there are few negatives, or many.",
    ),
    **_of_pools(
        "probe_by_fraction",
        _probe_by_fraction,
        "Linear probe against the imbalance r",
        "The first paper's Fig. 2, left: accuracy of a linear classifier on the frozen encoder.",
    ),
    **_of_pools(
        "probe_by_label_fraction",
        _probe_by_label_fraction,
        "Linear probe against the share of labels",
        "The first paper's Fig. 2, right: whether a gain grows when fewer labels train the classifier.",
    ),
    "class_groups": Drawing(
        _class_groups,
        "Who gains: common and rare classes",
        "Differences to the baseline in the primary measurement; a dot whose bar crosses zero could be noise.",
    ),
    "embedding": Drawing(
        _embedding, "t-SNE of the test images", "The first paper's Fig. 4: rare classes in reds, common ones in blues, one seed."
    ),
    "training_loss": Drawing(
        _curves(curve_figures.training_curves),
        "Loss while training",
        "Losses of different objectives are not comparable; their shapes are.",
    ),
    "share_at_bound": Drawing(
        _curves(curve_figures.share_at_bound),
        "Share of anchors at the bound",
        "An anchor at the bound gets no gradient from its negatives: the objective has switched it off.",
    ),
    "same_class_ratio": Drawing(
        _curves(curve_figures.same_class_ratio),
        "Same-class images against the positive",
        "Debiased losses take 1 for this ratio; where it is lower they subtract more than the false negatives' mass.",
    ),
    "true_negative_mean": Drawing(
        _true_negative_mean,
        "The mean over true negatives, estimated and true",
        "What each objective takes for the mean of e^s over true negatives, beside that mean computed with labels.",
    ),
}


def table(name: str, folder: Path) -> formats.Table:
    """One table of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.tables_of`.
        folder: the study's artefacts, with the gathered tables.

    Raises:
        KeyError: if there is no table of that name.
    """
    return table_of(name, read(folder))


def table_of(name: str, gathered: Gathered) -> formats.Table:
    """A table of gathered rows.

    Raises:
        KeyError: if there is no table of that name.
    """
    study = gathered.study
    probes = [_full_probe(gathered, pool) for pool in study.evaluation.linear_probe.label_pools]
    others = [
        Measurement(task, "accuracy", pool) for task in ("knn", "mean classifier") for pool in study.evaluation.knn.label_pools
    ]
    # The primary measurement leads; everything after it is exploratory.
    ordered = dict.fromkeys([gathered.primary._replace(group=None), *probes, *others])
    if name == "published":
        return tables.published_table(gathered.rows, gathered.published)
    groups = tables.GROUPS if study.dataset.rare_classes else (None,)
    measured = [each._replace(group=group) for each in ordered for group in groups]
    values = tables.compare(gathered.rows, gathered.baseline, measured)
    if name == "differences":
        return tables.difference_table(values, gathered.baseline)
    if name == "accuracy":
        return tables.accuracy_table(values, gathered.baseline, study.primary.oracle, gathered.gate)
    raise KeyError(f"There is no table {name!r}.")


def page(folder: Path) -> StudyPage:
    """What the page shows of the study with these artefacts."""
    gathered = read(folder)
    return page_of(folder, gathered, heading, lambda name: table_of(name, gathered))


def read(folder: Path) -> Gathered[ImageStudy]:
    """What was gathered of an image study, from ``results/<study>/artefacts``."""
    return Gathered.read(folder, ImageStudy)


def _full_probe(gathered: Gathered, pool: str) -> Measurement:
    """The linear probe on all labels of a pool."""
    largest = max(gathered.study.evaluation.linear_probe.label_fractions)
    return Measurement("linear probe", "accuracy", pool, largest)
