"""From a study's gathered tables to its figures, its tables and the page: what each name in the catalogue draws."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from trueneg.report import curves as curve_figures
from trueneg.report import figures, formats, tables
from trueneg.report.gathered import Gathered, base_name, page_of
from trueneg.report.page import StudyPage
from trueneg.study import runs
from trueneg.study.image_study import ImageStudy
from trueneg.study.records import read_rows

# Title of each figure and table, and a sentence on what to see in it.
TITLES = {
    "primary_by_fraction": (
        "The primary measurement against the imbalance r",
        "Lines that part towards small r would say that the correction matters where classes are uneven.",
    ),
    "primary_by_negatives": (
        "The primary measurement against the number of negatives",
        "BCL's Table 1 as curves: whether a correction matters more where there are few negatives, or many.",
    ),
    "probe_by_fraction": (
        "Linear probe against the imbalance r",
        "The first paper's Fig. 2, left: accuracy of a linear classifier on the frozen encoder.",
    ),
    "probe_by_label_fraction": (
        "Linear probe against the share of labels",
        "The first paper's Fig. 2, right: whether a gain grows when fewer labels train the classifier.",
    ),
    "class_groups": (
        "Who gains: common and rare classes",
        "Differences to the baseline in the primary measurement; a dot whose bar crosses zero could be noise.",
    ),
    "embedding": (
        "t-SNE of the test images",
        "The first paper's Fig. 4: rare classes in reds, common ones in blues, one seed.",
    ),
    "training_loss": ("Loss while training", "Losses of different objectives are not comparable; their shapes are."),
    "share_at_bound": (
        "Share of anchors at the bound",
        "An anchor at the bound gets no gradient from its negatives: the objective has switched it off.",
    ),
    "same_class_ratio": (
        "Same-class images against the positive",
        "Debiased losses take 1 for this ratio; where it is lower they subtract more than the false negatives' mass.",
    ),
    "true_negative_mean": (
        "The mean over true negatives, estimated and true",
        "What each objective takes for the mean of e^s over true negatives, beside that mean computed with labels.",
    ),
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


def draw(name: str, folder: Path, artefacts: list[str]) -> Figure:
    """One figure of a study.

    Args:
        name: from :func:`trueneg.report.catalogue.figures_of`.
        folder: the study's artefacts, with the gathered tables.
        artefacts: files of this figure alone.

    Raises:
        KeyError: if there is no figure of that name.
    """
    gathered = read(folder)
    base = name.removesuffix("_differences")
    paired = {"baseline": gathered.baseline} if name != base else {}
    return _drawing(base)(gathered, base, paired, artefacts)


def heading(name: str) -> tuple[str, str]:
    """Title of a figure or table, and a sentence on what to see in it."""
    return title_of(name), _titled(name)[1]


def title_of(name: str) -> str:
    """A figure's or table's title."""
    pool = _pool_of(name.removesuffix("_differences"))
    labels = {"all": ", labels of all training images", "imbalanced": ", labels of the imbalanced subset", None: ""}[pool]
    return _titled(name)[0] + labels + (": paired differences" if name.endswith("_differences") else "")


def _titled(name: str) -> tuple[str, str]:
    base = name.removesuffix("_differences")
    return TITLES[base.removesuffix(f"_{_pool_of(base)}_labels")]


def _pool_of(base: str) -> str | None:
    """The label pool that a figure's name ends with."""
    return next((pool for pool in ("all", "imbalanced") if base.endswith(f"_{pool}_labels")), None)


def _drawing(base: str) -> Callable[[Gathered, str, dict[str, str], list[str]], Figure]:
    for prefix, drawing in _DRAWINGS.items():
        if base.startswith(prefix):
            return drawing
    raise KeyError(f"There is no figure {base!r}.")


def _by_fraction(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    fractions = {label: settings.fraction for label, settings in runs.datasets(gathered.study).items()}
    if base == "primary_by_fraction":
        measured = gathered.measurement | {"metric": gathered.study.primary.metric}
    else:
        measured = _full_probe(gathered, _pool_of(base))
    draw = figures.accuracy_by_condition_paired if paired else figures.accuracy_by_condition
    return draw(gathered.rows, fractions, **paired, **measured, note=gathered.note)


def _by_negatives(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    measured = gathered.measurement | {"metric": gathered.study.primary.metric, "axis": figures.NEGATIVES_AXIS}
    draw = figures.accuracy_by_condition_paired if paired else figures.accuracy_by_condition
    return draw(gathered.rows, runs.negative_counts(gathered.study), **paired, **measured, note=gathered.note)


def _by_label_fraction(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    dataset = gathered.study.figures.label_fractions.dataset or gathered.dataset
    draw = figures.accuracy_by_label_fraction_paired if paired else figures.accuracy_by_label_fraction
    return draw(gathered.rows, dataset, **paired, labels=_pool_of(base), note=gathered.note)


def _class_groups(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    return figures.class_accuracy(gathered.rows, gathered.dataset, gathered.baseline, **gathered.measurement, note=gathered.note)


def _embedding(gathered: Gathered, base: str, paired: dict[str, str], artefacts: list[str]) -> Figure:
    wanted = gathered.study.figures.embedding
    coordinates = pd.concat(map(read_rows, artefacts), ignore_index=True)
    return figures.embedding(coordinates, wanted.dataset or gathered.dataset, wanted.objectives, note=gathered.study.note)


def _curves(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    def drawing(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
        return draw(gathered.curves, note=gathered.note)

    return drawing


def _true_negative_mean(gathered: Gathered, base: str, paired: dict[str, str], _: list[str]) -> Figure:
    return curve_figures.true_negative_mean(gathered.curves, gathered.dataset, note=gathered.note)


_DRAWINGS: dict[str, Callable[..., Figure]] = {
    "primary_by_fraction": _by_fraction,
    "primary_by_negatives": _by_negatives,
    "probe_by_fraction": _by_fraction,
    "probe_by_label_fraction": _by_label_fraction,
    "class_groups": _class_groups,
    "embedding": _embedding,
    "training_loss": _curves(curve_figures.training_curves),
    "share_at_bound": _curves(curve_figures.share_at_bound),
    "same_class_ratio": _curves(curve_figures.same_class_ratio),
    "true_negative_mean": _true_negative_mean,
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
        {"task": task, "setting": f"labels={pool}"}
        for task in ("knn", "mean classifier")
        for pool in study.evaluation.knn.label_pools
    ]
    # The primary measurement leads; everything after it is exploratory.
    ordered = [gathered.measurement, *(each for each in (*probes, *others) if each != gathered.measurement)]
    if name == "published":
        printed = gathered.published.assign(**gathered.measurement, metric="accuracy")
        return tables.published_table(gathered.rows, printed)
    groups = tables.METRICS if study.dataset.rare_classes else ("accuracy",)
    values = tables.compare(gathered.rows, gathered.baseline, [(each["task"], each["setting"]) for each in ordered], groups)
    if name == "differences":
        return tables.difference_table(values, gathered.baseline)
    if name == "accuracy":
        return tables.accuracy_table(values, gathered.baseline, base_name(study.primary.oracle), gathered.gate)
    raise KeyError(f"There is no table {name!r}.")


def page(folder: Path) -> StudyPage:
    """What the page shows of the study with these artefacts."""
    gathered = read(folder)
    return page_of(folder, gathered, heading, lambda name: table_of(name, gathered))


def read(folder: Path) -> Gathered[ImageStudy]:
    """What was gathered of an image study, from ``results/<study>/artefacts``."""
    return Gathered.read(folder, ImageStudy)


def _full_probe(gathered: Gathered, pool: str) -> dict[str, str]:
    """The linear probe on all labels of a pool."""
    largest = max(gathered.study.evaluation.linear_probe.label_fractions)
    return {"task": "linear probe", "setting": runs.probe_setting(pool, largest)}
