"""Effect of an objective's swept setting, shown beside the other objectives: the trade-off over η, ReCo's λ."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from trueneg.config import runs
from trueneg.report.drawing import LineStyle, add_legend, finish, legend_handle, line_styles, panels
from trueneg.report.gathered import Gathered
from trueneg.report.labels import axis_label, difference_label
from trueneg.report.metrics import evaluation_name, metric_name, scale, with_interval
from trueneg.report.plots import bars, compared, draw_intervals, draw_zero, rows_measuring, values_in_words
from trueneg.report.retrieval import with_means
from trueneg.stats.measurement import Measurement

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Sweep(NamedTuple):
    """The objective that is drawn as a curve.

    Attributes:
        objective: name of the objective.
        field: name of the swept setting.
        label: axis label.
        from_baseline: whether the baseline is the curve's point at 0.
    """

    objective: str
    field: str
    label: str
    from_baseline: bool = False


def places_of(variants: Iterable[str], chosen: str, field: str) -> dict[str, float]:
    """Map the variants that differ from the chosen one only in one numeric setting to its value, in ascending order.

    Args:
        variants: variants of the objective, as in the rows.
        chosen: variant selected on the validation split, or any variant that fixes the other settings.
        field: name of the setting; variants with a non-numeric value are left out.

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


def note_along(gathered: Gathered, field: str) -> str:
    """Return the end of a footnote for a swept setting; it states that the others were selected on the validation split."""
    others = {name for variant in gathered.selection["variant"] for name in json.loads(variant)} - {field}
    chosen = f"Selected on the validation split: {', '.join(sorted(others))}. " if others else ""
    return chosen + gathered.own_note


def sweep_figure(gathered: Gathered, sweep: Sweep, measured: Sequence[Measurement], paired: bool) -> "Figure":
    """Draw a panel per measurement: the swept objective as a curve, the others as horizontal lines, with intervals over seeds."""
    variants = runs.candidates(gathered.study)[sweep.objective]
    places = places_of(variants.values(), gathered.chosen(sweep.objective), sweep.field)
    rows, of_variants = (with_means(table[table["dataset"] == gathered.dataset]) for table in (gathered.rows, gathered.variants))
    baseline, styles = gathered.baseline, line_styles(rows["objective"])
    across = [name for name in _references(gathered, sweep.objective) if not (paired and name == baseline)]
    # Treat each variant as a separate objective.
    curve = of_variants[(of_variants["objective"] == sweep.objective) & of_variants["variant"].isin(places)]
    others = rows[rows["objective"].isin({*across, baseline} - {sweep.objective})]
    chosen = pd.concat([curve.assign(objective=curve["variant"]), others], ignore_index=True)
    chosen = chosen[chosen["split"] == "test"]
    figure, axes = panels(1, len(measured), width=max(5.4, 3.3 * len(measured)), height=4.1)
    texts, counts = [], []
    for plot, one in zip(axes[0], measured, strict=True):
        found = compared(rows_measuring(chosen, one), baseline if paired else None)
        curve = found.assign(x=found["objective"].map(places)).dropna(subset="x")
        if sweep.from_baseline and not paired and 0 not in places.values():
            curve = pd.concat([found[found["objective"] == baseline].assign(x=0.0), curve])
        curve, lines = curve.sort_values("x"), found.set_index("objective").reindex(across)
        _panel(plot, curve, lines, sweep.objective, styles, one.metric)
        if paired:
            zero = draw_zero(plot, styles[baseline])
        plot.set_ylabel(difference_label(one, baseline) if paired else axis_label(one))
        plot.set_title(evaluation_name(one), fontsize=9.5)
        plot.set_xlabel(sweep.label)
        counts += list(found["seeds"])
        ends = (
            f"{name} {with_interval(row['shown'], row['low'], row['high'], one.metric, paired)}" for name, row in lines.iterrows()
        )
        points = values_in_words(curve, one.metric, paired)
        texts.append(f"{one.task}, {metric_name(one)}: {sweep.objective} {points}; {'; '.join(ends)}.")
    names = [sweep.objective, *across]
    handles = [legend_handle(styles[name]) for name in names]
    add_legend(figure, *((handles, names) if not paired else ([*handles, zero], [*names, f"{baseline} (zero line)"])))
    about = f"Test split. {bars(baseline if paired else None, counts, 'Bars and bands')}"
    start = f"The first point of {sweep.objective} is {baseline}." if sweep.from_baseline and not paired else ""
    kind = f"Differences to {baseline}" if paired else "Values"
    sentences = [about, start, note_along(gathered, sweep.field)]
    return finish(figure, sentences, f"{kind} against {sweep.label}. {' '.join(texts)}")


def _references(gathered: Gathered, without: str) -> list[str]:
    """List the objectives drawn as horizontal lines: baseline, treatment, oracle, and DCL with the language model's or true η."""
    primary = gathered.study.primary
    named = {primary.baseline, primary.treatment, primary.oracle}
    return [
        name
        for name, objective in gathered.study.objectives.items()
        if name != without
        and (name in named or (objective.name == "dcl" and objective.class_probability in ("language model", "true")))
    ]


def _panel(
    plot: "Axes", curve: pd.DataFrame, across: pd.DataFrame, objective: str, styles: Mapping[str, LineStyle], metric: str
) -> None:
    factor = scale(metric)
    ends = np.array([curve["x"].min(), curve["x"].max()])
    for name, row in across.iterrows():
        style = styles[str(name)]
        plot.fill_between(ends, row["low"] * factor, row["high"] * factor, color=style.color, alpha=0.1, linewidth=0)
        # Place the marker beyond the end of the curve so that it does not cover it.
        level = row["shown"] * factor
        plot.plot(ends, [level, level], color=style.color, linestyle=style.linestyle, linewidth=1.3, label=name)
        plot.plot(ends[1] + 0.05 * np.ptp(ends), level, color=style.color, marker=style.marker, linestyle="none")
    draw_intervals(plot, curve, styles[objective], y="shown", factor=factor, label=objective, zorder=3)
