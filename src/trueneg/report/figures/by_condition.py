"""The primary measurement or a linear probe against what is varied: r, N, the temperature or the label fraction."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from trueneg.config import runs
from trueneg.config.image_study import ImageStudy
from trueneg.report.declared import Drawing, distinct_pools, full_probe, primary_dataset, twins
from trueneg.report.drawing import Figure, add_legend, finish, line_styles, panels
from trueneg.report.gathered import Gathered
from trueneg.report.labels import axis_label, measurement_name
from trueneg.report.metrics import scale
from trueneg.report.plots import Axis, draw_intervals, interval_note, points_text, set_ticks, shown_values, zero_line
from trueneg.specs.settings import Study
from trueneg.stats.measurement import Measurement

ORDER = 10
POOLS = {"all": "labels of all training images", "imbalanced": "labels of the imbalanced subset"}  # as named in titles
FRACTION_AXIS = Axis("Imbalance r: fraction of the rare classes' training images that is kept")
LABELS_AXIS = Axis("Label fraction", logarithmic=True, percent=True)
NEGATIVES_AXIS = Axis("Number of negatives per anchor, N", logarithmic=True)
TEMPERATURE_AXIS = Axis("Temperature t", logarithmic=True)


def drawings(study: Study) -> list[Drawing]:
    """Declare an image study's figures: against r, N or t if varied, and against the label fraction if requested."""
    if not isinstance(study, ImageStudy):
        return []
    drawings: list[Drawing] = []
    primary, pools = study.primary.measurement, distinct_pools(study, study.evaluation.linear_probe.label_pools)
    if isinstance(study.dataset.fraction, list):
        datasets: Mapping[str, Any] = runs.datasets(study)
        options = {"places": {label: settings.fraction for label, settings in datasets.items()}, "axis": FRACTION_AXIS}
        title = "Primary measurement against the imbalance r"
        caption = "Do the lines diverge towards small r, where classes are more imbalanced?"
        drawings += twins(study, "primary_by_fraction", by_condition, title, caption, measured=primary, **options)
        caption = "Sample-Specific Debiasing's Fig. 2, left: accuracy of a linear classifier on the frozen encoder."
        for pool in pools:
            name, title = f"probe_by_fraction_{pool}_labels", f"Linear probe against the imbalance r, {POOLS[pool]}"
            drawings += twins(study, name, by_condition, title, caption, measured=full_probe(study, pool), **options)
    if "batch_size" in study.conditions:
        options = {"places": runs.negative_counts(study), "axis": NEGATIVES_AXIS}
        title = "Primary measurement against the number of negatives"
        caption = "BCL's Table 1 as curves: does a correction matter more with few negatives or with many?"
        drawings += twins(study, "primary_by_negatives", by_condition, title, caption, measured=primary, **options)
    if "temperature" in study.conditions:
        places = {label: resolved.training.temperature for label, (_, resolved) in runs.conditions(study).items()}
        options = {"places": places, "axis": TEMPERATURE_AXIS}
        title = "Primary measurement against the temperature"
        caption = "A gain at one temperature may be one that the baseline has at another; differences are at equal temperature."
        drawings += twins(study, "primary_by_temperature", by_condition, title, caption, measured=primary, **options)
    if study.figures.label_fractions is not None:
        caption = "Sample-Specific Debiasing's Fig. 2, right: does the gain grow when the classifier has fewer labels?"
        dataset = study.figures.label_fractions.dataset or primary_dataset(study)
        for pool in pools:
            name, title = f"probe_by_label_fraction_{pool}_labels", f"Linear probe against the label fraction, {POOLS[pool]}"
            measured = Measurement("linear probe", "accuracy", pool)
            drawings += twins(study, name, by_label_fraction, title, caption, dataset=dataset, measured=measured)
    return drawings


def by_condition(
    gathered: Gathered, baseline: str | None, measured: Measurement, places: Mapping[str, float], axis: Axis
) -> Figure:
    """Plot a measurement against the value of the varied condition, which `places` gives for each data set."""
    return accuracy_by_condition(gathered.rows, places, measured, baseline, axis, partial(gathered.note_on, places))


def by_label_fraction(gathered: Gathered, baseline: str | None, dataset: str, measured: Measurement) -> Figure:
    """Plot a classifier's accuracy on one data set against the label fraction; each fraction is treated as a data set."""
    rows = gathered.rows[gathered.rows["dataset"] == dataset]
    places = {str(fraction): fraction for fraction in rows["fraction"].dropna().unique()}
    rows = rows.assign(dataset=rows["fraction"].map(str), fraction=np.nan)
    note = partial(gathered.note_on, {dataset})
    return accuracy_by_condition(rows, places, measured._replace(fraction=None), baseline, LABELS_AXIS, note, dataset)


def accuracy_by_condition(
    rows: pd.DataFrame,
    places: Mapping[str, float],
    measured: Measurement,
    baseline: str | None = None,
    axis: Axis = FRACTION_AXIS,
    note: Callable[[Collection[str]], str] | None = None,
    dataset: str = "",
) -> Figure:
    """Plot means on the test split, or paired differences from the baseline if given, against the varied condition.

    Args:
        rows: tidy rows of all objectives of the study; the position of an objective among them sets its style.
        places: each data set's position on the axis, by label.
        measured: measurement to draw.
        baseline: objective that is subtracted and drawn as the zero line.
        axis: axis of the varied condition.
        note: returns the end of the footnote for the objectives that are drawn or subtracted.
        dataset: label of the data set, if all rows belong to one.
    """
    chosen = rows[rows["dataset"].isin(places) & (rows["split"] == "test")]
    points = shown_values(chosen, baseline, measured)
    points = points.assign(x=points["dataset"].map(places)).sort_values("x", kind="stable")
    objectives, all_styles = set(points["objective"]), line_styles(rows["objective"])
    styles = {name: style for name, style in all_styles.items() if name in objectives}
    figure, [[plot]] = panels()
    zero = zero_line(plot, baseline, all_styles)
    draw_intervals(plot, points, styles, factor=scale(measured.metric), apart=3.2)
    add_legend(figure, zero | styles)
    set_ticks(plot, sorted(points["x"].unique()), axis)
    label = axis_label(measured, baseline)
    plot.set_ylabel(label)
    about = f"{measurement_name(measured, 'test', dataset)}. {interval_note(baseline, points['seeds'])}"
    lines = points.groupby("objective", sort=False)
    texts = (f"{name}: {points_text(lines.get_group(name), measured.metric, bool(baseline))}" for name in styles)
    end = note(set(filter(None, (baseline, *styles)))) if note is not None else ""
    return finish(figure, [about, end], f"{' '.join(label.split())} against {axis.label}. {'; '.join(texts)}.")
