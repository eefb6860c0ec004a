"""Labels in figures and tables; objectives and data sets keep their names from the
configuration.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from trueneg.report.metrics import evaluation_name, metric_name, unit
from trueneg.specs.kinds.trained import FEW_PILOTS
from trueneg.specs.settings import format_value, label_of
from trueneg.stats.measurement import Measurement

INTERVAL = "95\u00a0% t intervals over seeds"
PAIRED_INTERVAL = "95\u00a0% paired t intervals over seeds"
CROSSED_INTERVAL = "95\u00a0% intervals over seeds and test samples"
SYMBOLS = {"temperature": "t", "class_probability": "η", "alpha": "α", "beta": "β"}  # of settings


def axis_label(of: Measurement, baseline: str | None = None) -> str:
    """Return the axis label of a metric, or of its difference from the baseline if one is given,
    with the unit.
    """
    name = metric_name(of)
    label = name[:1].upper() + name[1:] + (f"\nminus that of {baseline}" if baseline else "")
    return with_unit(label, unit(of.metric, difference=baseline is not None))


def measurement_name(of: Measurement, dataset: str) -> str:
    """Return the display name of an evaluation on the test split of a data set.

    Example:
        >>> measurement_name(Measurement("knn", "accuracy", "all"), "fraction=0.1")
        'Test split: kNN, labels=all; fraction=0.1'
    """
    return f"Test split: {evaluation_name(of)}; {dataset}"


def variant_name(objective: str, variant: str) -> str:
    """Return the name of an objective with its variant's settings.

    Example:
        >>> variant_name("DCL", '{"class_probability":0.1}'), variant_name("CL", "{}")
        ('DCL,class_probability=0.1', 'CL')
    """
    return ",".join(
        [objective, *(f"{key}={label_of(value)}" for key, value in json.loads(variant).items())]
    )


def settings_name(variant: str) -> str:
    """Return a variant's settings, with symbols for common ones.

    Example:
        >>> settings_name('{"beta":1.0,"temperature":0.2}')
        'β = 1, t = 0.2'
    """
    return ", ".join(
        f"{SYMBOLS.get(key, key)} = {format_value(value)}"
        for key, value in json.loads(variant).items()
    )


def choice(is_tuned: bool) -> str:
    """Return how the values of an objective with several variants came about."""
    return "Selected on the validation split" if is_tuned else "First of the listed values"


def chosen_name(entry: Mapping[str, Any]) -> str:
    """Return the name of an objective with its selected values, and the grid or the objective that
    they come from, or with its first listed values.

    Args:
        entry: entry of the selection in ``comparison.json``: ``objective``, ``variant``, the number
            of ``candidates``, all ``variants`` that it was selected from, if it was selected, and
            the objective that it ``follows``, if its values were taken over from one.

    Example:
        >>> grid = ['{"beta":1,"temperature":0.1}', '{"beta":1,"temperature":0.2}']
        >>> chosen_name({"objective": "HCL", "variant": grid[1], "variants": grid})
        'HCL (β = 1; t = 0.2 of 0.1, 0.2)'
        >>> chosen_name(
        ...     {
        ...         "objective": "Oracle-random",
        ...         "variant": '{"temperature":0.2}',
        ...         "follows": "Oracle",
        ...     }
        ... )
        'Oracle-random (t = 0.2, as Oracle)'
        >>> chosen_name({"objective": "CL", "variant": '{"temperature":0.2}', "candidates": 5})
        'CL (t = 0.2)'
        >>> chosen_name({"objective": "CL", "variant": "{}"})
        'CL'
    """
    objective = entry["objective"]
    variant = json.loads(entry["variant"])
    if follows := entry.get("follows"):
        return f"{objective} ({settings_name(entry['variant'])}, as {follows})"
    variants = [json.loads(other) for other in entry.get("variants", ())]
    if len(variants) < 2:
        has_several = entry.get("candidates", 1) > 1
        return f"{objective} ({settings_name(entry['variant'])})" if has_several else objective
    parts = []
    for key, value in variant.items():
        grid = dict.fromkeys(format_value(other[key]) for other in variants)
        swept = f" of {', '.join(grid)}" if len(grid) > 1 else ""
        parts.append(f"{SYMBOLS.get(key, key)} = {format_value(value)}{swept}")
    return f"{objective} ({'; '.join(parts)})"


def few_pilots(selection: Iterable[Mapping[str, Any]]) -> str:
    """Say how many pilot seeds chose the settings, if they were too few; else nothing.

    Args:
        selection: entries of the selection in ``comparison.json``.

    Example:
        >>> few_pilots([{"variants": ['{"temperature":0.1}', '{"temperature":0.5}'], "seeds": 2}])
        'settings chosen from 2 seeds, fewer than 4'
    """
    counts = [entry["seeds"] for entry in selection if len(entry.get("variants", ())) > 1]
    is_few = min(counts, default=FEW_PILOTS) < FEW_PILOTS
    return f"settings chosen from {seed_count(counts)}, fewer than {FEW_PILOTS}" if is_few else ""


def edge_notes(selection: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a note on the selected values at the edge of their grid; empty if there are none.

    Args:
        selection: entries of the selection in ``comparison.json``.

    Example:
        >>> edge_notes(
        ...     [{"objective": "CL", "variant": '{"temperature":0.5}', "at edge": "temperature"}]
        ... )[0].split("; ")[0]
        'Selected at the edge of its grid: CL (temperature = 0.5)'
    """
    names = []
    for entry in selection:
        if keys := entry.get("at edge"):
            values = json.loads(entry["variant"])
            at_edge = (f"{key} = {format_value(values[key])}" for key in keys.split(", "))
            names.append(f"{entry['objective']} ({', '.join(at_edge)})")
    if not names:
        return []
    return [
        f"Selected at the edge of its grid: {', '.join(dict.fromkeys(names))}; unless the edge is a"
        " natural limit, a better value may lie beyond it."
    ]


def seed_count(counts: Iterable[int]) -> str:
    """Format a number of seeds, or their range if the counts differ.

    Example:
        >>> seed_count([8, 8]), seed_count([1]), seed_count([6, 8])
        ('8 seeds', '1 seed', '6 to 8 seeds')
    """
    distinct = sorted(set(map(int, counts)))
    ends = " to ".join(map(str, dict.fromkeys(distinct[:1] + distinct[-1:]))) or "no"
    return f"{ends} seed" if distinct == [1] else f"{ends} seeds"


def with_unit(text: str, of: str) -> str:
    """Append the unit in parentheses, if there is one."""
    return f"{text} ({of})" if of else text
