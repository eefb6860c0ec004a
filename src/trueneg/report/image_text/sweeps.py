"""What an objective's swept number does, beside the objectives that do not have it: the trade-off of η, ReCo's λ."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from trueneg.report.drawing import STYLE, LineStyle, add_legend, finish, legend_handle, line_styles, panels
from trueneg.report.labels import INTERVAL, PAIRED_INTERVAL, axis_label, difference_label, seed_count
from trueneg.report.metrics import evaluation_name, metric_name, scale, written
from trueneg.stats.comparison import means, paired_differences
from trueneg.stats.measurement import Measurement


class Sweep(NamedTuple):
    """The objective that is drawn as a curve.

    Attributes:
        objective: its name.
        places: variant, as rows have it → the swept number.
        label: of the axis.
        from_baseline: whether the baseline is the curve's point at 0.
    """

    objective: str
    places: Mapping[str, float]
    label: str
    from_baseline: bool = False


def places_of(variants: Iterable[str], chosen: str, field: str) -> dict[str, float]:
    """The variants of one objective that differ from the chosen one in nothing but a number.

    Args:
        variants: of the objective, as rows have them.
        chosen: the variant that the validation split selected, or any that fixes the other settings.
        field: which setting; a variant whose value is no number is left out.

    Returns:
        Variant → number, ascending.

    Example:
        >>> variants = ['{"eta":0.1,"temperature":0.1}', '{"eta":0.02,"temperature":0.1}', '{"eta":0.1,"temperature":0.5}']
        >>> places_of(variants, chosen=variants[0], field="eta")
        {'{"eta":0.02,"temperature":0.1}': 0.02, '{"eta":0.1,"temperature":0.1}': 0.1}
    """
    fixed = json.loads(chosen) | {field: None}
    swept = {variant: json.loads(variant) for variant in variants}
    found = {variant: own[field] for variant, own in swept.items() if field in own and own | {field: None} == fixed}
    numbers = [(variant, float(value)) for variant, value in found.items() if isinstance(value, int | float)]
    return dict(sorted(numbers, key=lambda pair: pair[1]))


@matplotlib.rc_context(STYLE)
def sweep_figure(
    rows: pd.DataFrame,
    variants: pd.DataFrame,
    sweep: Sweep,
    measurements: Sequence[Measurement],
    references: Sequence[str],
    baseline: str,
    paired: bool = False,
    split: str = "test",
    note: str = "",
) -> Figure:
    """A panel a measurement: the swept objective as a curve, the others as lines across, each with its interval over seeds.

    With η and three tasks it is sample-specific debiasing's Fig. 3; with λ, ReCo's Fig. 5 (c).

    Args:
        rows: tidy rows of one data set, with all objectives of the study.
        variants: tidy rows of the same data set, with the swept objective's variants.
        sweep: what is drawn as a curve.
        measurements: a panel each.
        references: objectives drawn as lines across, in this order.
        baseline: the objective that is subtracted where `paired`; then it is the zero line.
        paired: whether differences to the baseline within seeds are drawn.
        split: which split.
        note: printed in the footnote.

    Raises:
        ValueError: if a measurement has no rows.
    """
    styles = line_styles(rows["objective"])
    across = [name for name in references if not (paired and name == baseline)]
    figure, axes = panels(1, len(measurements), width=max(5.4, 3.3 * len(measurements)), height=4.1)
    texts, counts = [], []
    for plot, measurement in zip(axes[0], measurements, strict=True):
        found = _found(rows, variants, sweep, measurement, across, baseline, paired, split)
        curve = found.assign(x=found["objective"].map(sweep.places)).dropna(subset="x")
        if sweep.from_baseline and not paired and 0 not in sweep.places.values():
            at_zero = found[found["objective"] == baseline].assign(x=0.0)
            curve = pd.concat([at_zero, curve])
        _panel(plot, curve.sort_values("x"), found.set_index("objective").reindex(across), sweep, styles, measurement.metric)
        if paired:
            plot.axhline(0, color=styles[baseline].color, linewidth=1)
        plot.set_ylabel(difference_label(measurement, baseline) if paired else axis_label(measurement))
        plot.set_title(evaluation_name(measurement), fontsize=9.5)
        plot.set_xlabel(sweep.label)
        counts += list(found["seeds"])
        described = _described(curve, found, across, sweep, measurement.metric, paired)
        texts.append(f"{measurement.task}, {metric_name(measurement)}: {described}")
    handles = [legend_handle(styles[name]) for name in (sweep.objective, *across)]
    names = [sweep.objective, *across]
    if paired:
        handles.append(axes[0, 0].lines[-1])
        names.append(f"{baseline} (zero line)")
    add_legend(figure, handles, names)
    interval = PAIRED_INTERVAL if paired else INTERVAL
    about = f"{split.capitalize()} split. Bars and bands: {interval} ({seed_count(counts)})."
    start = f"The first point of {sweep.objective} is {baseline}." if sweep.from_baseline and not paired else ""
    kind = f"Differences to {baseline}" if paired else "Values"
    return finish(figure, [about, start, note], f"{kind} against {sweep.label}. {' '.join(texts)}")


def _found(
    rows: pd.DataFrame,
    variants: pd.DataFrame,
    sweep: Sweep,
    measurement: Measurement,
    across: Sequence[str],
    baseline: str,
    paired: bool,
    split: str,
) -> pd.DataFrame:
    """Mean (or difference) and interval of each place of the curve and each line across, in the column ``shown``."""
    of_curve = variants[(variants["objective"] == sweep.objective) & variants["variant"].isin(sweep.places)]
    others = rows[rows["objective"].isin({*across, baseline} - {sweep.objective})]
    # Each variant is an objective of its own here.
    chosen = pd.concat([of_curve.assign(objective=of_curve["variant"]), others], ignore_index=True)
    chosen = measurement.rows_of(chosen[chosen["split"] == split])
    if chosen.empty:
        raise ValueError(f"There is nothing to draw for {evaluation_name(measurement)}, {metric_name(measurement)}, {split}.")
    if paired:
        return paired_differences(chosen, baseline).assign(shown=lambda table: table["difference"])
    return means(chosen).assign(shown=lambda table: table["mean"])


def _panel(
    plot: Axes, curve: pd.DataFrame, across: pd.DataFrame, sweep: Sweep, styles: Mapping[str, LineStyle], metric: str
) -> None:
    factor = scale(metric)
    ends = np.array([curve["x"].min(), curve["x"].max()])
    for name, row in across.iterrows():
        style = styles[name]
        low, high = (np.full(2, row[end] * factor) for end in ("low", "high"))
        plot.fill_between(ends, low, high, color=style.color, alpha=0.1, linewidth=0)
        # The marker stands beyond the curve, where it hides nothing of it.
        level = row["shown"] * factor
        plot.plot(ends, [level, level], color=style.color, linestyle=style.linestyle, linewidth=1.3, label=name)
        plot.plot(ends[1] + 0.05 * np.ptp(ends), level, color=style.color, marker=style.marker, linestyle="none")
    style = styles[sweep.objective]
    plot.errorbar(
        curve["x"],
        curve["shown"] * factor,
        yerr=((curve["high"] - curve["shown"]) * factor).to_numpy(),
        color=style.color,
        marker=style.marker,
        linestyle=style.linestyle,
        elinewidth=1,
        label=sweep.objective,
        zorder=3,
    )


def _described(curve: pd.DataFrame, found: pd.DataFrame, across: Sequence[str], sweep: Sweep, metric: str, signed: bool) -> str:
    """The values in words, for those who cannot see the figure."""

    def text(row: pd.Series) -> str:
        shown, low, high = (written(row[name], metric, signed) for name in ("shown", "low", "high"))
        return f"{shown} [{low}, {high}]"

    points = ", ".join(f"{text(row)} at {row['x']:g}" for _, row in curve.sort_values("x").iterrows())
    lines = "; ".join(f"{row['objective']} {text(row)}" for _, row in found.iterrows() if row["objective"] in across)
    return f"{sweep.objective} {points}; {lines}."
