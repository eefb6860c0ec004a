"""The gain from class probabilities, by how far they are from the known ones."""

import numpy as np
import pandas as pd
from pandas import DataFrame

from trueneg.report.declared import ROWS, Drawing
from trueneg.report.drawing import Figure, finish, line_styles, styles_of
from trueneg.report.figures.dose_response import gain_panels, gains_of
from trueneg.report.gathered import Gathered
from trueneg.report.labels import INTERVAL, PAIRED_INTERVAL, measurement_name, seed_count
from trueneg.report.layouts import compared_rows
from trueneg.report.metrics import minus, scale, unit
from trueneg.report.tables.building import records
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.objectives.base import PartlyTrue, uses_truth
from trueneg.specs.settings import values_of
from trueneg.stats.comparison import means

ORDER = 72
KIND = TrainedStudy
ERRORS = "eta_errors.parquet"
QUANTITIES = {"error of η": "Error of η: E|1/(1 − η) − 1/(1 − ρ)|", "mean η": "Mean η"}


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the figure of a study that uses several class probabilities by name, and whose data
    have known ones.
    """
    if not study.has_true_etas:
        return []
    used = [
        value
        for each in study.objectives.values()
        for value in values_of(getattr(each, "class_probability", None))
    ]
    if sum(isinstance(value, str | PartlyTrue) for value in used) < 2:
        return []
    return [
        Drawing(
            "eta_quality",
            eta_quality,
            "Gain by the error of η",
            "Does the gain grow as the class probabilities approach the known ones? Exploratory,"
            " except what the protocol names.",
            (*ROWS, ERRORS),
        )
    ]


def gains_by_error(gathered: Gathered) -> tuple[DataFrame, DataFrame]:
    """Return the gain of each class probability beside its error and its mean, and the trend of the
    primary measurement.

    Returns:
        One row per objective with the columns of the artefact (means over seeds) and those of
            :func:`~trueneg.report.figures.dose_response.gains_of`; the baseline is the point with η
            = 0. And the trend over the largest group of objectives that differ only in the share of
            sentences with the true η: one row (none for fewer than three) with their names
            (``objective``) and the slope on the error of η (``shown``), fitted per seed, with a t
            interval.
    """
    rows = gathered.primary.rows_of(compared_rows(gathered)).merge(
        gathered.read(ERRORS).drop_duplicates(), on="run"
    )
    rows = rows[rows["dataset"] == gathered.dataset]
    settings = {
        name: each
        for name, each in gathered.study.objectives.items()
        if hasattr(each, "class_probability")
    }
    errors = (
        rows[rows["objective"].isin([*settings, gathered.baseline])]
        .groupby("objective", sort=False)[[*QUANTITIES]]
        .mean()
    )
    gains = (
        errors.reset_index()
        .merge(gains_of(gathered), on="objective", how="left")
        .fillna({"shown": 0.0})
    )
    names = [name for name, each in settings.items() if uses_truth(each.class_probability)]
    others = [settings[name].model_copy(update={"class_probability": 0.0}) for name in names]
    groups = (
        [name for name, other in zip(names, others, strict=True) if other == first]
        for first in others
    )
    alike = max(groups, key=len, default=[])
    if len(alike) < 3:
        return gains, gains.iloc[:0]
    by_seed = rows[rows["objective"].isin(alike)].groupby("seed")
    slopes = {seed: np.polyfit(part["error of η"], part["value"], 1)[0] for seed, part in by_seed}
    fitted = rows[rows["objective"] == alike[0]].assign(
        objective=", ".join(alike), value=lambda table: table["seed"].map(slopes)
    )
    return gains, means(fitted).rename(columns={"mean": "shown"})


def eta_quality(gathered: Gathered) -> Figure:
    """Draw the gain of each class probability against its error and, beside it, against its
    mean.
    """
    points, trend = gains_by_error(gathered)
    parts = [points.assign(x=points[column], quantity=name) for column, name in QUANTITIES.items()]
    figure = gain_panels(
        gathered,
        pd.concat(parts),
        styles_of(points["objective"], line_styles(gathered.study.objectives)),
        "quantity",
        title="{}",
    )
    sentences = [
        f"{measurement_name(gathered.primary, gathered.dataset)}. Exploratory. Bars:"
        f" {PAIRED_INTERVAL}, not corrected ({seed_count(points['seeds'].dropna())})."
    ]
    metric = gathered.primary.metric
    of_unit = f" {unit(metric, difference=True)}".rstrip()
    for row in records(trend):
        shown, low, high = (scale(metric) * row[name] for name in ("shown", "low", "high"))
        ends = "no interval" if pd.isna(low) else f"{low:+.2g}, {high:+.2g}"
        slope = minus(f"{shown:+.2g} [{ends}]") + of_unit
        sentences.append(f"Slope on the error over {row['objective']}: {slope} ({INTERVAL}).")
    return finish(
        figure,
        *sentences,
        gathered.note_on({gathered.dataset}, {gathered.baseline, *points["objective"]}),
    )
