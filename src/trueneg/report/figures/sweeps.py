"""Measurements against a setting that an image–text study sweeps; objectives without it are
repeated at each value.
"""

import json
from collections.abc import Iterable

import pandas as pd

from trueneg.config import runs
from trueneg.report.declared import Drawing, twins
from trueneg.report.drawing import Figure
from trueneg.report.figures.by_condition import draw_by_place
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import tasks, with_means
from trueneg.report.plots import Axis
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.settings import format_value

ORDER = 20
KIND = TrainedStudy
# Each swept setting with the name, axis, title and caption of its figure.
SWEEPS = {
    "class_probability": (
        "tradeoff",
        Axis("Constant η"),
        "Performance by task against a constant η",
        (
            "Sample-Specific Debiasing's Fig. 3: does one η suit all tasks, and does an η per"
            " sentence beat every constant?"
        ),
    ),
    "batch_size": (
        "ablation_batch_size",
        Axis("Batch size", logarithmic=True),
        "Primary measurement against the batch size",
        (
            "ReCo's Fig. 5 (a): a larger batch has more negatives, and more false negatives among"
            " them."
        ),
    ),
    "dimensions": (
        "ablation_dimensions",
        Axis("Embedding size D", logarithmic=True),
        "Primary measurement against the embedding size",
        "ReCo's Fig. 5 (b).",
    ),
    "negative_weight": (
        "ablation_strength",
        Axis("λ, weight of the negatives"),
        "Primary measurement against ReCo's weight of the negatives",
        "ReCo's Fig. 5 (c): for which values of λ does ReCo beat the baseline?",
    ),
}


def drawings(study: TrainedStudy) -> list[Drawing]:
    """Declare a figure for each of :data:`SWEEPS` that an image–text study sweeps over two or more
    numbers.

    A tuned study has none, because its candidates are measured on pilot seeds only.
    """
    if not study.draws_sweeps or study.tuning is not None:
        return []
    sweeps = [list(variants.values()) for variants in runs.variants(study).values()]
    shown = {
        key: about
        for key, about in SWEEPS.items()
        if any(len(places_of(each, each[0], key)) > 1 for each in sweeps)
    }
    return [
        drawing
        for field, (name, axis, title, caption) in shown.items()
        for drawing in twins(study, name, by_setting, title, caption, field=field, axis=axis)
    ]


def by_setting(gathered: Gathered, baseline: str | None, field: str, axis: Axis) -> Figure:
    """Draw the primary measurement or, against η, the main metric of each task; the uncorrected
    baseline has η = 0.
    """
    rows, variants = (
        with_means(table[table["dataset"] == gathered.dataset])
        for table in (gathered.rows, gathered.variants)
    )
    labelled = runs.variants(gathered.study).items()
    places = {
        name: places_of(each.values(), gathered.chosen(name), field) for name, each in labelled
    }
    swept = [name for name, of_objective in places.items() if of_objective]
    flat = [name for name in _references(gathered.study) if name not in swept]
    parts = [rows]
    notes = [note_along(gathered, field, [*swept, *flat])]
    measured = [gathered.primary]
    for name in swept:
        for variant, value in places[name].items():
            is_variant = (variants["objective"] == name) & (variants["variant"] == variant)
            parts.append(variants[is_variant].assign(dataset=f"{value:g}"))
    if field == "class_probability":
        by_task = {place.measured.task: place.measured for place in reversed(tasks(rows))}
        by_task.pop("linear probe", None)
        measured = [*reversed(by_task.values())]
        if baseline is None:
            start = [name for name in swept if 0 not in places[name].values()]
            parts += [
                rows[rows["objective"] == gathered.baseline].assign(objective=name, dataset="0")
                for name in start
            ]
            places[""] = {gathered.baseline: 0.0}
            notes = [
                (
                    f"The first point on the curve of {', '.join(start)} is {gathered.baseline}."
                    if start
                    else ""
                ),
                *notes,
            ]
    labels = {
        f"{value:g}": value for of_objective in places.values() for value in of_objective.values()
    }
    parts += [rows[rows["objective"].isin(flat)].assign(dataset=label) for label in labels]
    return draw_by_place(pd.concat(parts), labels, measured, baseline, axis, notes, flat)


def places_of(variants: Iterable[str], chosen: str, field: str) -> dict[str, float]:
    """Map each variant that differs from the chosen one only in a numeric setting to the value of
    this setting, ascending.

    Args:
        variants: variants of the objective, as in the rows.
        chosen: the compared variant; it fixes the other settings.
        field: name of the setting; variants with a non-numeric value are left out.

    Example:
        >>> variants = [
        ...     '{"eta":0.1,"temperature":0.1}',
        ...     '{"eta":0.02,"temperature":0.1}',
        ...     '{"eta":0.1,"temperature":0.5}',
        ... ]
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
    """Return the end of a footnote for a swept setting: the first values of the drawn objectives'
    other settings.
    """
    variants = [json.loads(gathered.chosen(name)) | {field: None} for name in drawn]
    others = sorted(
        {
            (name, format_value(value))
            for variant in variants
            for name, value in variant.items()
            if name != field
        }
    )
    if not others:
        return gathered.study_note
    return f"At {', '.join(map('='.join, others))}. {gathered.study_note}"


def _references(study: TrainedStudy) -> list[str]:
    """List the objectives drawn as horizontal lines: baseline, treatment, oracle, and DCL with the
    language model's or true η.
    """
    named = {study.primary.baseline, study.primary.treatment, study.primary.oracle}
    return [
        name
        for name, objective in study.objectives.items()
        if name in named
        or (objective.name == "dcl" and objective.class_probability in ("language model", "true"))
    ]
