"""The primary measurement or a linear probe against the varied condition: the imbalance r, N or the label fraction."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from trueneg.config import runs
from trueneg.config.image_study import ImageStudy
from trueneg.report.declared import Drawing, full_probe, twins
from trueneg.report.drawing import Figure, LineStyle, add_style_legend, finish, line_styles, panels
from trueneg.report.gathered import Gathered
from trueneg.report.labels import axis_label, difference_label, measurement_name
from trueneg.report.metrics import scale
from trueneg.report.plots import Axis, bars, compared, draw_intervals, place_ticks, rows_measuring, rows_where, values_in_words
from trueneg.specs.settings import Study
from trueneg.stats.measurement import Measurement

ORDER = 10
POOLS = {"all": "labels of all training images", "imbalanced": "labels of the imbalanced subset"}  # as named in titles
FRACTION_AXIS = Axis("Imbalance r: share of the rare classes' training images that is kept")
LABELS_AXIS = Axis("Share of labels", logarithmic=True, percent=True)
NEGATIVES_AXIS = Axis("Number of negatives N of an anchor", logarithmic=True)


def drawings(study: Study) -> list[Drawing]:
    """Declare an image study's figures: against r or N if swept, and against the label fraction if the study requests it."""
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


def by_fraction(gathered: Gathered, paired: bool, measured: Measurement) -> Figure:
    """Plot a measurement against r (the first paper's Fig. 2, left)."""
    datasets: Mapping[str, Any] = runs.datasets(gathered.study)
    places = {label: settings.fraction for label, settings in datasets.items()}
    baseline = gathered.baseline if paired else None
    return accuracy_by_condition(gathered.rows, places, measured, baseline, FRACTION_AXIS, gathered.note)


def by_negatives(gathered: Gathered, paired: bool) -> Figure:
    """Plot the primary measurement against N (BCL's Table 1)."""
    places, baseline = runs.negative_counts(gathered.study), gathered.baseline if paired else None
    return accuracy_by_condition(gathered.rows, places, gathered.primary, baseline, NEGATIVES_AXIS, gathered.note)


def by_label_fraction(gathered: Gathered, paired: bool, measured: Measurement) -> Figure:
    """Plot a classifier's accuracy against the label fraction (the first paper's Fig. 2, right)."""
    dataset = gathered.study.figures.label_fractions.dataset or gathered.dataset
    return accuracy_by_label_fraction(gathered.rows, dataset, measured, gathered.baseline if paired else None, gathered.note)


def accuracy_by_label_fraction(
    rows: pd.DataFrame, dataset: str, measured: Measurement, baseline: str | None = None, note: str = ""
) -> Figure:
    """Plot accuracy on one data set against the label fraction; fractions act as data sets here."""
    rows = rows_where(rows, dataset=[dataset])
    places = {str(fraction): fraction for fraction in rows["fraction"].dropna().unique()}
    rows = rows.assign(dataset=rows["fraction"].map(str), fraction=np.nan)
    return accuracy_by_condition(rows, places, measured._replace(fraction=None), baseline, LABELS_AXIS, note, dataset)


def accuracy_by_condition(
    rows: pd.DataFrame,
    places: Mapping[str, float],
    measured: Measurement,
    baseline: str | None = None,
    axis: Axis = FRACTION_AXIS,
    note: str = "",
    dataset: str = "",
) -> Figure:
    """Plot means on the test split, or paired differences from the baseline if given, against the varied condition.

    Args:
        rows: tidy rows of all objectives of the study; the position of an objective among them sets its style.
        places: position on the axis of each data set, by label.
        measured: measurement to draw.
        baseline: objective that is subtracted and drawn as the zero line.
        axis: axis of the varied condition.
        note: note printed in the footnote.
        dataset: label of the data set, if all rows belong to one.
    """
    found = compared(rows_measuring(rows_where(rows, dataset=list(places), split=["test"]), measured), baseline)
    found = found.assign(x=found["dataset"].map(places)).sort_values("x", kind="stable")
    objectives = set(found["objective"])
    styles = {name: style for name, style in line_styles(rows["objective"]).items() if name in objectives}
    figure, axes = panels()
    plot, shown, texts = axes[0, 0], {}, []
    if baseline:
        zero = LineStyle(line_styles(rows["objective"])[baseline].color, "", "-")
        plot.axhline(0, color=zero.color, linewidth=1)
        shown[f"{baseline} (zero line)"] = zero
    for place, (name, style) in enumerate(styles.items()):
        line = found[found["objective"] == name]
        shift = 3.2 * (place - (len(styles) - 1) / 2)
        draw_intervals(plot, line, style, y="shown", factor=scale(measured.metric), shift=shift, label=name)
        texts.append(f"{name}: {values_in_words(line, measured.metric, bool(baseline))}")
    add_style_legend(figure, shown | styles)
    place_ticks(plot, sorted(found["x"].unique()), axis)
    label = difference_label(measured, baseline) if baseline else axis_label(measured)
    plot.set_ylabel(label)
    about = f"{measurement_name(measured, 'test', dataset)}. {bars(baseline, found['seeds'])}"
    return finish(figure, [about, note], f"{' '.join(label.split())} against {axis.label}. {'; '.join(texts)}.")
