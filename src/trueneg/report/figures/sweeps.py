"""Measurements against an objective's swept setting, with the other objectives as horizontal lines."""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from trueneg.config import runs
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.report.declared import Drawing, twins
from trueneg.report.drawing import Axes, Figure, LineStyle, add_legend, finish, line_styles, panels
from trueneg.report.gathered import Gathered
from trueneg.report.labels import axis_label
from trueneg.report.layouts import tasks, with_means
from trueneg.report.metrics import evaluation_name, metric_name, scale
from trueneg.report.plots import draw_intervals, interval_note, points_text, shown_values, value_text, zero_line
from trueneg.specs.settings import Study, format_value
from trueneg.stats.measurement import Measurement

ORDER = 20


def drawings(study: Study) -> list[Drawing]:
    """Declare the trade-off figure if an image–text study sweeps constant class probabilities."""
    objective = swept_objective(study, "dcl", "class_probability") if isinstance(study, ImageTextStudy) else None
    if objective is None:
        return []
    title = "Performance by task against a constant η"
    caption = "Sample-Specific Debiasing's Fig. 3: does one η suit all tasks, and does an η per sentence beat every constant?"
    return twins(study, "tradeoff", tradeoff, title, caption, objective=objective)


def tradeoff(gathered: Gathered, baseline: str | None, objective: str) -> Figure:
    """Draw each task against η, one panel per task with its main metric."""
    return sweep_figure(gathered, baseline, objective, "class_probability", "Constant η", _main_metrics(gathered))


def _main_metrics(gathered: Gathered) -> list[Measurement]:
    """Return the main metric of each task."""
    layout = tasks(with_means(gathered.rows[gathered.rows["dataset"] == gathered.dataset]))
    by_task = itertools.groupby((key for key in layout.groups[""] if key.task != "linear probe"), key=lambda key: key.task)
    return [next(keys) for _, keys in by_task]


def swept_objective(study: ImageTextStudy, name: str, field: str) -> str | None:
    """Return the first objective of a type that sweeps a setting over two or more numbers; None if there is none.

    In a tuned study there is none, because its candidates are measured on pilot seeds only.
    """
    objectives: Mapping[str, Any] = study.objectives if study.tuning is None else {}
    for label, objective in objectives.items():
        values = getattr(objective, field) if objective.name == name else None
        if isinstance(values, list) and sum(isinstance(value, int | float) for value in values) > 1:
            return label
    return None


def places_of(variants: Iterable[str], chosen: str, field: str) -> dict[str, float]:
    """Map each variant that differs from the chosen one only in a numeric setting to the value of this setting, ascending.

    Args:
        variants: variants of the objective, as in the rows.
        chosen: variant selected on the validation split, or the base; it fixes the other settings.
        field: name of the setting; variants with a non-numeric value are left out.

    Example:
        >>> variants = ['{"eta":0.1,"temperature":0.1}', '{"eta":0.02,"temperature":0.1}', '{"eta":0.1,"temperature":0.5}']
        >>> places_of(variants, chosen=variants[0], field="eta")
        {'{"eta":0.02,"temperature":0.1}': 0.02, '{"eta":0.1,"temperature":0.1}': 0.1}
    """
    fixed = json.loads(chosen) | {field: None}
    swept = {variant: json.loads(variant) for variant in variants}
    numbers = [
        (variant, float(values[field]))
        for variant, values in swept.items()
        if isinstance(values.get(field), int | float) and values | {field: None} == fixed
    ]
    return dict(sorted(numbers, key=lambda pair: pair[1]))


def note_along(gathered: Gathered, field: str, drawn: Iterable[str]) -> str:
    """Return the end of a footnote for a swept setting: the base or selected values of the drawn objectives' other settings."""
    variants = [json.loads(gathered.chosen(name)) | {field: None} for name in drawn]
    others = sorted({(name, format_value(value)) for variant in variants for name, value in variant.items() if name != field})
    if not others:
        return gathered.study_note
    if gathered.study.sweeps == "one at a time":
        return f"At {', '.join(map('='.join, others))}. {gathered.study_note}"
    return f"Selected on the validation split: {', '.join(dict(others))}. {gathered.study_note}"


def _swept(
    gathered: Gathered, baseline: str | None, objective: str, field: str
) -> tuple[pd.DataFrame, dict[str, float], dict[str, LineStyle], dict[str, LineStyle], list[str]]:
    """Collect what is drawn of a swept objective and of the others; against η, the uncorrected baseline is its point at 0.

    Returns:
        The test rows, in which each variant on the curve is a separate objective; the value of the setting of each of these, in
        ascending order; the styles of the swept objective and of the others; the styles of all; and the end of the footnote.
    """
    places = places_of(runs.variants(gathered.study)[objective].values(), gathered.chosen(objective), field)
    start = ""
    if field == "class_probability" and baseline is None and 0 not in places.values():
        places = {gathered.baseline: 0.0} | places
        start = f"The first point on the curve of {objective} is {gathered.baseline}."
    rows, variants = (
        with_means(table[(table["dataset"] == gathered.dataset) & (table["split"] == "test")])
        for table in (gathered.rows, gathered.variants)
    )
    across = [name for name in _references(gathered.study) if name not in (objective, baseline)]
    drawn = list(dict.fromkeys((objective, gathered.baseline, *across)))
    others = rows[rows["objective"].isin(set(drawn) - {objective})]
    # Treat each variant as a separate objective.
    curve = variants[(variants["objective"] == objective) & variants["variant"].isin(places)]
    chosen = pd.concat([curve.assign(objective=curve["variant"]), others], ignore_index=True)
    all_styles = line_styles(rows["objective"])
    styles = {name: all_styles[name] for name in (objective, *across)}
    return chosen, places, styles, all_styles, [start, note_along(gathered, field, drawn)]


def sweep_figure(
    gathered: Gathered, baseline: str | None, objective: str, field: str, label: str, measured: Sequence[Measurement]
) -> Figure:
    """Draw a panel per measurement: the swept objective as a curve, the others as horizontal lines, with intervals over seeds.

    Args:
        gathered: artefacts of the study.
        baseline: objective that is subtracted and drawn as the zero line; None draws the values themselves.
        objective: objective that is drawn as a curve.
        field: its swept setting.
        label: label of the horizontal axis.
        measured: measurement of each panel.
    """
    rows, places, styles, all_styles, notes = _swept(gathered, baseline, objective, field)
    across = [name for name in styles if name != objective]
    figure, axes = panels(1, len(measured), width=max(5.4, 3.3 * len(measured)), height=4.1)
    texts, counts = [], []
    for plot, key in zip(axes[0], measured, strict=True):
        values = shown_values(rows, baseline, key)
        curve = values.assign(x=values["objective"].map(places), objective=objective).dropna(subset="x").sort_values("x")
        lines = values.set_index("objective").reindex(across)
        _draw_across(plot, lines, styles, scale(key.metric), curve["x"].min(), curve["x"].max())
        draw_intervals(plot, curve, {objective: styles[objective]}, factor=scale(key.metric), zorder=3)
        zero = zero_line(plot, baseline, all_styles)
        plot.set(xlabel=label, ylabel=axis_label(key, baseline))
        plot.set_title(evaluation_name(key), fontsize=9.5)
        counts += list(values["seeds"])
        signed = baseline is not None
        ends = (f"{name} {value_text(row, key.metric, signed)}" for name, row in lines.iterrows())
        points = points_text(curve, key.metric, signed)
        texts.append(f"{key.task}, {metric_name(key)}: {objective} {points}; {'; '.join(ends)}.")
    add_legend(figure, styles | zero)
    about = f"Test split. {interval_note(baseline, counts, 'Bars and bands')}"
    kind = f"Differences from {baseline}" if baseline else "Values"
    return finish(figure, [about, *notes], f"{kind} against {label}. {' '.join(texts)}")


def _references(study: Any) -> list[str]:
    """List the objectives drawn as horizontal lines: baseline, treatment, oracle, and DCL with the language model's or true η."""
    named = {study.primary.baseline, study.primary.treatment, study.primary.oracle}
    return [
        name
        for name, objective in study.objectives.items()
        if name in named or (objective.name == "dcl" and objective.class_probability in ("language model", "true"))
    ]


def _draw_across(
    plot: Axes, lines: pd.DataFrame, styles: Mapping[str, LineStyle], factor: float, start: float, end: float
) -> None:
    """Draw each value as a horizontal line over the curve's range, with its interval as a band."""
    beyond = end + 0.05 * (end - start)  # keeps the marker clear of the curve
    for name, row in lines.iterrows():
        style = styles[str(name)]
        plot.fill_between([start, end], row["low"] * factor, row["high"] * factor, color=style.color, alpha=0.1, linewidth=0)
        level = np.full(3, row["shown"] * factor)
        plot.plot([start, end, beyond], level, linewidth=1.3, markevery=[2], label=name, **style._asdict())
