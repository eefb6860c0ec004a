"""The gain from marking false negatives, by how well they are marked: methods and imperfect oracles
on the same axes.
"""

from typing import Any

from pandas import DataFrame

from trueneg.config import runs
from trueneg.report.declared import ROWS, Drawing
from trueneg.report.drawing import Figure, Styles, add_legend, dots, finish, line_styles
from trueneg.report.figures.monitors import last_epoch, over_seeds
from trueneg.report.gathered import Gathered
from trueneg.report.labels import PAIRED_INTERVAL, axis_label, measurement_name, seed_count
from trueneg.report.layouts import compared_rows
from trueneg.report.metrics import scale
from trueneg.report.plots import draw_intervals, facets
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.settings import values_of
from trueneg.stats.comparison import paired_differences

ORDER = 8
KIND = TrainedStudy
MONITORS = ("mask precision", "mask recall")


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare the figure of a trained study that trains oracles with errors."""
    oracles: Any = [each for each in study.objectives.values() if each.name == "oracle"]
    shares = [share for oracle in oracles for share in (oracle.precision, oracle.recall)]
    if all(values_of(share) == [1] for share in shares):
        return []
    return [
        Drawing(
            "dose_response",
            dose_response,
            "Gain by the precision and recall of the mask",
            "Does the gain grow with the precision and recall of what is removed? Exploratory:"
            " methods and oracles are not compared by a test, and temperatures may differ between"
            " them and the baseline.",
            (*ROWS, "curves.parquet"),
        )
    ]


def dose_response(gathered: Gathered) -> Figure:
    """Draw each objective that marks negatives: its difference from the baseline against its mask's
    precision and recall.
    """
    groups = gathered.study.class_groups
    curves = gathered.curves[gathered.curves["dataset"] == gathered.dataset]
    masks = over_seeds(last_epoch(curves), MONITORS, groups)
    masks = masks.rename(columns={"shown": "x"})[["objective", "monitor", "group", "x"]]
    gains = gains_of(gathered)
    points = masks.merge(gains, on="objective")
    oracles = [name for name in dict.fromkeys(points["objective"]) if name in gathered.oracles]
    others = [name for name in oracles if not _is_comparable(gathered, name)]
    points = points[~points["objective"].isin(others)]
    styles = line_styles(gathered.study.objectives)
    # a marker for each
    styles |= {name: style._replace(color="0.45") for name, style in line_styles(oracles).items()}
    styles = {name: styles[name] for name in dict.fromkeys(points["objective"])}
    by = ["monitor"]
    title = "{}"
    anchors = ""
    if len(groups) > 1:
        by = ["monitor", "group"]
        title = "{}, {} classes"
        anchors = "for these anchors, "
    figure = gain_panels(
        gathered, points, styles, *by, title=title, xlabel=f"{anchors}at the last epoch", share=True
    )
    return finish(
        figure,
        f"{measurement_name(gathered.primary, gathered.dataset)}. Bars: {PAIRED_INTERVAL}, not"
        f" corrected ({seed_count(gains['seeds'])}). Grey: oracles and their controls.",
        gathered.note_on({gathered.dataset}, {gathered.baseline, *points["objective"]}),
    )


def gains_of(gathered: Gathered) -> DataFrame:
    """Return each objective's paired difference from the baseline in the primary measurement, also
    as ``shown``.
    """
    rows = gathered.primary.rows_of(compared_rows(gathered))
    gains = paired_differences(rows[rows["dataset"] == gathered.dataset], gathered.baseline)
    return gains.drop(columns="group").assign(shown=gains["difference"])


def gain_panels(
    gathered: Gathered,
    points: DataFrame,
    styles: Styles,
    *by: str,
    **labels: Any,
) -> Figure:
    """Draw gains against ``x``, one marker per objective with its interval, and one panel per value
    of `by`.
    """
    labels["ylabel"] = axis_label(gathered.primary, gathered.baseline)
    figure, panels = facets(points, *by, size=(3.2, 2.6), columns=2, **labels)
    for plot, _, part in panels:
        plot.axhline(0, color="0.1", linewidth=1)
        draw_intervals(plot, part, dots(styles), factor=scale(gathered.primary.metric))
        plot.tick_params(labelbottom=True)
    add_legend(figure, dots(styles))
    return figure


def _is_comparable(gathered: Gathered, oracle: str) -> bool:
    """Return whether an oracle has the settings of the primary contrast's, apart from its
    errors.
    """
    study = gathered.study
    return study.tuning is None or study.primary.oracle in (
        oracle,
        runs.followed(study).get(oracle),
    )
