"""The primary measurement or a linear probe against what is varied: r, N, the temperature or the
label fraction.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from pandas import DataFrame

from trueneg.config import runs
from trueneg.report.declared import Drawing, full_probe, primary_dataset, probed_pools, twins
from trueneg.report.drawing import Figure, add_legend, finish, line_styles, panels, styles_of
from trueneg.report.gathered import Gathered
from trueneg.report.labels import axis_label
from trueneg.report.layouts import compared_rows
from trueneg.report.metrics import evaluation_name, scale
from trueneg.report.plots import (
    Axis,
    draw_intervals,
    interval_note,
    set_ticks,
    shown_values,
    zero_line,
)
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.stats.measurement import Measurement

ORDER = 10
KIND = TrainedStudy
# as named in titles
POOLS = {"all": "labels of all training images", "imbalanced": "labels of the imbalanced subset"}
FRACTION_AXIS = Axis("Imbalance r: fraction of the rare classes' training images that is kept")
LABELS_AXIS = Axis("Label fraction", logarithmic=True, percent=True)
# Each setting of the conditions with the name, axis, title and caption of its figure.
CONDITIONS = {
    "fraction": (
        "primary_by_fraction",
        FRACTION_AXIS,
        "Primary measurement against the imbalance r",
        "Do the lines diverge towards small r, where classes are more imbalanced?",
    ),
    "batch_size": (
        "primary_by_negatives",
        Axis("Number of negatives per anchor, N", logarithmic=True),
        "Primary measurement against the number of negatives",
        "BCL's Table 1 as curves: does a correction matter more with few negatives or with many?",
    ),
    "temperature": (
        "primary_by_temperature",
        Axis("Temperature t", logarithmic=True),
        "Primary measurement against the temperature",
        "A gain at one temperature may be one that the baseline has at another; differences are at"
        " equal temperature.",
    ),
}


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare a trained study's figures: against r, N or t if varied, and against the label
    fraction if requested.
    """
    drawings: list[Drawing] = []
    pools = probed_pools(study)
    for field, (name, axis, title, caption) in CONDITIONS.items():
        if field in study.conditions or isinstance(getattr(study.dataset, field, None), list):
            places = _places(study, field)
            drawings += twins(study, name, by_condition, title, caption, places=places, axis=axis)
            for pool in pools if field == "fraction" else ():
                drawings += twins(
                    study,
                    f"probe_by_fraction_{pool}_labels",
                    by_condition,
                    f"Linear probe against the imbalance r, {POOLS[pool]}",
                    "Sample-Specific Debiasing's Fig. 2, left: accuracy of a linear classifier on"
                    " the frozen encoder.",
                    measured=full_probe(study, pool),
                    places=places,
                    axis=axis,
                )
    if wanted := getattr(study.figures, "label_fractions", None):
        for pool in pools:
            drawings += twins(
                study,
                f"probe_by_label_fraction_{pool}_labels",
                by_label_fraction,
                f"Linear probe against the label fraction, {POOLS[pool]}",
                "Sample-Specific Debiasing's Fig. 2, right: does the gain grow when the classifier"
                " has fewer labels?",
                dataset=wanted.dataset or primary_dataset(study),
                measured=Measurement("linear probe", "accuracy", pool),
            )
    return drawings


def _places(study: TrainedStudy, field: str) -> dict[str, float]:
    """Map each condition that differs from the primary contrast's only in a setting to the value of
    this setting, or to the number of negatives instead of the batch size.
    """
    counts = runs.negative_counts(study) if field == "batch_size" else {}
    settings = {label: values for label, (values, _) in runs.conditions(study).items()}
    others: Any = settings[primary_dataset(study)] | {field: None}
    return {
        label: counts.get(label, values[field])
        for label, values in settings.items()
        if values | {field: None} == others
    }


def by_condition(
    gathered: Gathered,
    baseline: str | None,
    places: Mapping[str, float],
    axis: Axis,
    measured: Measurement | None = None,
) -> Figure:
    """Plot a measurement, by default the primary one, against the value of the varied condition,
    which `places` gives for each data set.
    """
    rows = compared_rows(gathered)
    return draw_by_place(
        rows,
        places,
        [measured or gathered.primary],
        baseline,
        axis,
        [gathered.note_on(places, {*rows["objective"]})],
    )


def by_label_fraction(
    gathered: Gathered, baseline: str | None, dataset: str, measured: Measurement
) -> Figure:
    """Plot a classifier's accuracy on one data set against the label fraction; each fraction is
    treated as a data set.
    """
    rows = gathered.rows[gathered.rows["dataset"] == dataset]
    places = {str(fraction): fraction for fraction in rows["fraction"].dropna().unique()}
    rows = rows.assign(dataset=rows["fraction"].map(str), fraction=np.nan)
    return draw_by_place(
        rows,
        places,
        [measured._replace(fraction=None)],
        baseline,
        LABELS_AXIS,
        [f"Data set: {dataset}.", gathered.note_on({dataset}, {*rows["objective"]})],
    )


def draw_by_place(
    rows: DataFrame,
    places: Mapping[str, float],
    measured: Sequence[Measurement],
    baseline: str | None = None,
    axis: Axis = FRACTION_AXIS,
    notes: Sequence[str] = (),
    flat: Collection[str] = (),
) -> Figure:
    """Plot means on the test split, or paired differences from the baseline if given, against what
    is varied.

    Args:
        rows: tidy rows of all objectives of the study; the position of an objective among them sets
            its style.
        places: each data set's position on the axis, by label; rows of other data sets are not
            drawn.
        measured: measurements to draw, each in a panel.
        baseline: objective that is subtracted and drawn as the zero line.
        axis: axis of what is varied.
        notes: end of the footnote.
        flat: objectives with the same rows at each place, drawn with bands instead of bars.
    """
    chosen = rows[rows["dataset"].isin(places) & (rows["split"] == "test")]
    all_styles = line_styles(rows["objective"])
    figure, [plots] = panels(1, len(measured), width=max(6.4, 3.3 * len(measured)))
    drawn: set[str] = set()
    seeds: list[int] = []
    for plot, of in zip(plots, measured, strict=True):
        points = shown_values(chosen, baseline, of)
        points = points.assign(x=points["dataset"].map(places)).sort_values("x", kind="stable")
        zero = zero_line(plot, baseline, all_styles)
        size = scale(of.metric)
        names = set(points["objective"])
        bands = styles_of(names & {*flat}, all_styles)
        bars = styles_of(names - {*flat}, all_styles)
        draw_intervals(plot, points, bands, factor=size, band=True)
        draw_intervals(plot, points, bars, factor=size, apart=3.2)
        set_ticks(plot, sorted(points["x"].unique()), axis)
        plot.set_ylabel(axis_label(of, baseline))
        plot.set_title(evaluation_name(of) if len(measured) > 1 else "", fontsize=9.5)
        drawn |= names
        seeds += list(points["seeds"])
    add_legend(figure, zero | styles_of(drawn, all_styles))
    return finish(
        figure,
        f"Test split{f': {evaluation_name(measured[0])}' if len(measured) == 1 else ''}.",
        interval_note(baseline, seeds, "Bars and bands" if flat else "Bars"),
        *notes,
    )
