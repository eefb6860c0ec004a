"""Paired differences on all, common and rare classes, which show which classes gain."""

import pandas as pd

from trueneg.config.image_study import ImageStudy
from trueneg.report.declared import Drawing
from trueneg.report.drawing import Figure, add_legend, finish, legend_handle, line_styles, panels
from trueneg.report.gathered import Gathered
from trueneg.report.labels import PAIRED_INTERVAL, measurement_name, seed_count
from trueneg.report.metrics import group_name, metric_name, scale, unit, with_interval
from trueneg.report.plots import forest, rows_measuring, rows_where
from trueneg.specs.settings import Study
from trueneg.stats.comparison import paired_differences
from trueneg.stats.measurement import Measurement, measurements

ORDER = 30
GROUPS = (None, "common", "rare")


def drawings(study: Study) -> list[Drawing]:
    """Declare the figure of an image study with rare classes."""
    if not isinstance(study, ImageStudy) or not study.dataset.rare_classes:
        return []
    title = "Who gains: common and rare classes"
    caption = "Differences to the baseline in the primary measurement; a dot whose bar crosses zero could be noise."
    return [Drawing("class_groups", class_groups, title, caption)]


def class_groups(gathered: Gathered) -> Figure:
    """Draw the figure for the primary data set and measurement."""
    return class_accuracy(gathered.rows, gathered.dataset, gathered.baseline, gathered.primary, gathered.note)


def class_accuracy(rows: pd.DataFrame, dataset: str, baseline: str, measured: Measurement, note: str = "") -> Figure:
    """Draw a forest plot with one row per objective and one dot style per group of classes."""
    chosen = rows_where(rows, dataset=[dataset], split=["test"])
    found = paired_differences(rows_measuring(chosen, *(measured._replace(group=group) for group in GROUPS)), baseline)
    groups = {metric_name(one): one for one in measurements(found)}  # only one group without rare classes
    objectives, metric, styles = list(dict.fromkeys(found["objective"])), measured.metric, line_styles(groups)
    figure, axes = panels(height=1.7 + 0.62 * len(objectives))
    plot = axes[0, 0]
    plot.axvline(0, color="0.1", linewidth=1)
    tables = {name: one.rows_of(found).set_index("objective") for name, one in groups.items()}
    forest(plot, tables, styles, objectives, y="difference", factor=scale(metric))
    plot.set_xlabel(f"Accuracy minus that of {baseline} ({unit(metric, difference=True)}); right of the line: better")
    add_legend(figure, [legend_handle(style, line=False) for style in styles.values()], list(map(group_name, groups.values())))
    what = measurement_name(measured, "test", dataset)
    about = f"{what}. Bars: {PAIRED_INTERVAL} ({seed_count(found['seeds'])})."
    values = "; ".join(
        f"{row['objective']} {metric_name(Measurement.of(dict(row)))} "
        + with_interval(row["difference"], row["low"], row["high"], metric, signed=True)
        for _, row in found.iterrows()
    )
    return finish(figure, [about, note], f"Differences to {baseline} with intervals, {what}: {values}.")
