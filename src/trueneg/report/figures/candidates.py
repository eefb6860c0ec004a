"""Every candidate of a selection: the measurement on the validation split against the swept settings."""

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from trueneg.report.declared import Drawing, of_candidates
from trueneg.report.drawing import Axes, Figure, add_legend, finish, line_styles
from trueneg.report.gathered import Gathered
from trueneg.report.labels import SYMBOLS, axis_label, measurement_name, seed_count, settings_name
from trueneg.report.metrics import scale, with_interval
from trueneg.report.plots import draw_intervals, facets, interval_note
from trueneg.specs.settings import Study, format_value

ORDER = 25
FIRST = ("temperature", "logit_scale")  # settings drawn along the axis if they are swept
LINE = "0.45"  # colour of what is not trained
CROWDED = 5  # labels of more values overlap unless they are upright
RING: Mapping[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 13, "markerfacecolor": "none", "color": "0.1"}


def drawings(study: Study) -> list[Drawing]:
    """Declare the figure if the study selects variants."""
    caption = (
        "How much depends on the choice? Rings mark the chosen candidates; if a ring is at the end of a grid, better values "
        "may lie beyond. Candidates share seeds, so do not compare their bars; the chosen mean, the largest of several, is "
        "optimistic."
    )
    return of_candidates(study, candidates, caption)


def candidates(gathered: Gathered) -> Figure:
    """Draw one panel per objective (and data set): a line along its main setting for each combination of the others."""
    from matplotlib.lines import Line2D

    table, measured = gathered.read("candidates.parquet"), gathered.selected_by
    swept = [json.loads(variant) for variant in table["variant"]]
    fields = [next((field for field in FIRST if field in settings), min(settings)) for settings in swept]
    values = [settings.pop(field) for settings, field in zip(swept, fields, strict=True)]
    table["field"], table["value"] = fields, [value if type(value) in (int, float) else format_value(value) for value in values]
    table["others"] = [settings_name(json.dumps(settings)) or "no other setting" for settings in swept]
    how = interval_note(None, table["seeds"])
    if table["seeds"].max() == 2:  # a t interval of two seeds is 12.7 times as wide as its two values are apart
        reach = table["standard deviation"] / math.sqrt(2)
        table["low"], table["high"] = table["mean"] - reach, table["mean"] + reach
        how = "Bars: from one seed to the other (2 seeds)."
    by = ("objective", "dataset") if table["dataset"].nunique() > 1 else ("objective",)
    styles = line_styles(table["others"])
    title = "{}, {}" if len(by) > 1 else "{}"
    figure, panels = facets(table, *by, size=(3.0, 2.6), title=title, ylabel=axis_label(measured))
    for plot, _, rows in panels:
        label_axis(plot, rows)
        drawn = rows.assign(x=rows["value"].map(positions(rows)))
        of_panel = {name: style for name, style in styles.items() if name in set(rows["others"])}
        draw_intervals(plot, drawn, of_panel, "others", y="mean", factor=scale(measured.metric), apart=3)
        best = drawn[drawn["chosen"].astype(bool)]
        plot.plot(best["x"], scale(measured.metric) * best["mean"], **RING)
    reference = _before_training(gathered, scale(measured.metric))
    for plot, *_ in panels if reference else ():
        plot.axhline(**reference)
    limits = [plot.get_ylim() for plot, *_ in panels]
    for plot, *_ in panels:
        plot.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    lines = {reference["label"]: Line2D([], [], color=LINE)} if reference else {}
    add_legend(figure, (styles if len(styles) > 1 else {}) | {"chosen": Line2D([], [], **RING)} | lines)
    texts = [
        f"{row['objective']} on {row['dataset']} at {settings_name(row['variant'])}: "
        f"{with_interval(row['mean'], row['low'], row['high'], measured.metric)}{' (chosen)' if row['chosen'] else ''}"
        for row in table.to_dict("records")
    ]
    about = f"{measurement_name(measured, 'validation')}. {how}"
    notes = [about, *gathered.selection_notes, gathered.study_note]
    return finish(figure, notes, f"Candidates, {about} {'; '.join(texts)}.")


def _before_training(gathered: Gathered, factor: float) -> dict[str, Any]:
    """Return the horizontal line of the towers before training; empty if the study does not have them."""
    if gathered.study.first_baseline is None:
        return {}
    rows = gathered.selected_by.rows_of(gathered.variants[gathered.variants["split"] == "validation"])
    values = rows.loc[(rows["objective"] == gathered.study.first_baseline) & (rows["dataset"] == gathered.dataset), "value"]
    label = f"{gathered.study.first_baseline} ({seed_count([values.size])} of the study)"
    return {"y": factor * values.mean(), "color": LINE, "linewidth": 1, "label": label} if values.size else {}


def positions(rows: pd.DataFrame) -> Mapping[Any, float]:
    """Return the position of each value along the axis: the value itself, or its index in the list if any is not a number."""
    values = list(dict.fromkeys(rows["value"]))
    are_numbers = all(type(value) in (int, float) for value in values)
    return {value: float(value) if are_numbers else float(number) for number, value in enumerate(values)}


def label_axis(plot: Axes, rows: pd.DataFrame) -> None:
    """Label the axis with its setting and place ticks at the candidates only; the axis is logarithmic for positive numbers."""
    ticks = positions(rows)
    if all(type(value) in (int, float) and value > 0 for value in ticks):
        plot.set_xscale("log")
    plot.set_xticks(list(ticks.values()), [format_value(value) for value in ticks])
    plot.set_xticks([], minor=True)
    plot.tick_params(axis="x", labelrotation=90 if len(ticks) > CROWDED else 0)
    plot.margins(x=0.12)
    field = rows["field"].iloc[0]
    plot.set_xlabel(SYMBOLS.get(field, field))
