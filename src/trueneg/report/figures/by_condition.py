"""The primary measurement or a linear probe against what differs between conditions: the imbalance r, N, the share of labels."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from trueneg.config import runs
from trueneg.config.image_study import ImageStudy
from trueneg.report.declared import Drawing, full_probe, twins
from trueneg.report.gathered import Gathered
from trueneg.report.plots import Axis, by_place, rows_measuring, rows_where
from trueneg.specs.settings import Study
from trueneg.stats.measurement import Measurement

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ORDER = 10
POOLS = {"all": "labels of all training images", "imbalanced": "labels of the imbalanced subset"}  # as titles call them
FRACTION_AXIS = Axis("Imbalance r: share of the rare classes' training images that is kept")
LABELS_AXIS = Axis("Share of labels", logarithmic=True, percent=True)
NEGATIVES_AXIS = Axis("Number of negatives N of an anchor", logarithmic=True)


def drawings(study: Study) -> list[Drawing]:
    """Of an image study: against r or N where it is swept, against the share of labels where the study asks for it."""
    if not isinstance(study, ImageStudy):
        return []
    found, pools = [], study.evaluation.linear_probe.label_pools
    if isinstance(study.dataset.fraction, list):
        found += twins(
            "primary_by_fraction",
            by_fraction,
            "The primary measurement against the imbalance r",
            "Lines that part towards small r would say that the correction matters where classes are uneven.",
            measured=study.primary.measurement,
        )
        for pool in pools:
            found += twins(
                f"probe_by_fraction_{pool}_labels",
                by_fraction,
                f"Linear probe against the imbalance r, {POOLS[pool]}",
                "The first paper's Fig. 2, left: accuracy of a linear classifier on the frozen encoder.",
                measured=full_probe(study, pool),
            )
    if "batch_size" in study.conditions:
        found += twins(
            "primary_by_negatives",
            by_negatives,
            "The primary measurement against the number of negatives",
            "BCL's Table 1 as curves: whether a correction matters more where there are few negatives, or many.",
        )
    if study.figures.label_fractions is not None:
        for pool in pools:
            found += twins(
                f"probe_by_label_fraction_{pool}_labels",
                by_label_fraction,
                f"Linear probe against the share of labels, {POOLS[pool]}",
                "The first paper's Fig. 2, right: whether a gain grows when fewer labels train the classifier.",
                measured=Measurement("linear probe", "accuracy", pool),
            )
    return found


def by_fraction(gathered: Gathered, paired: bool, measured: Measurement) -> "Figure":
    """A measurement against r (the first paper's Fig. 2, left)."""
    places = {label: settings.fraction for label, settings in runs.datasets(gathered.study).items()}
    baseline = gathered.baseline if paired else None
    return accuracy_by_condition(gathered.rows, places, measured, baseline, FRACTION_AXIS, gathered.note)


def by_negatives(gathered: Gathered, paired: bool) -> "Figure":
    """The primary measurement against N (BCL's Table 1)."""
    places, baseline = runs.negative_counts(gathered.study), gathered.baseline if paired else None
    return accuracy_by_condition(gathered.rows, places, gathered.primary, baseline, NEGATIVES_AXIS, gathered.note)


def by_label_fraction(gathered: Gathered, paired: bool, measured: Measurement) -> "Figure":
    """A classifier's accuracy against the share of labels (the first paper's Fig. 2, right)."""
    dataset = gathered.study.figures.label_fractions.dataset or gathered.dataset
    return accuracy_by_label_fraction(gathered.rows, dataset, measured, gathered.baseline if paired else None, gathered.note)


def accuracy_by_condition(
    rows: pd.DataFrame,
    places: Mapping[str, float],
    measured: Measurement,
    baseline: str | None = None,
    axis: Axis = FRACTION_AXIS,
    note: str = "",
) -> "Figure":
    """Accuracy against what differs between data sets; `places` says where each one's label stands on the axis."""
    chosen = rows_measuring(rows_where(rows, dataset=list(places), split=["test"]), measured)
    return by_place(chosen.assign(x=chosen["dataset"].map(places)), measured, rows["objective"], baseline, axis, note)


def accuracy_by_label_fraction(
    rows: pd.DataFrame, dataset: str, measured: Measurement, baseline: str | None = None, note: str = ""
) -> "Figure":
    """Accuracy on one data set against the share of labels."""
    chosen, measured = rows_where(rows, dataset=[dataset], split=["test"]), measured._replace(fraction=None)
    chosen = chosen[chosen["fraction"].notna()]
    chosen = chosen.loc[rows_measuring(chosen.assign(fraction=np.nan), measured).index]
    return by_place(chosen.assign(x=chosen["fraction"]), measured, rows["objective"], baseline, LABELS_AXIS, note, dataset)
