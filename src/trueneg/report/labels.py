"""How figures and tables call things; objectives and data sets keep the names of the configuration."""

import json
from collections.abc import Iterable

from trueneg.report.metrics import evaluation_name, metric_name, unit
from trueneg.specs.settings import format_value
from trueneg.stats.measurement import Measurement

INTERVAL = "95\u00a0% t intervals over seeds"
PAIRED_INTERVAL = "95\u00a0% paired t intervals over seeds"


def axis_label(of: Measurement) -> str:
    """The metric with its unit, for the axis that shows its values."""
    return with_unit(capitalised(metric_name(of)), unit(of.metric))


def difference_label(of: Measurement, baseline: str) -> str:
    """The difference of a metric to the baseline with its unit, for the axis that shows it."""
    return with_unit(f"{capitalised(metric_name(of))}\nminus that of {baseline}", unit(of.metric, difference=True))


def measurement_name(of: Measurement, split: str, dataset: str = "") -> str:
    """Which evaluation a figure or table shows.

    Args:
        of: what is measured.
        split: such as ``"test"``.
        dataset: its label; empty: none is named.

    Example:
        >>> measurement_name(Measurement("knn", "accuracy", "all"), "test", "fraction=0.1")
        'Test split: kNN, labels=all; fraction=0.1'
    """
    return f"{capitalised(split)} split: {evaluation_name(of)}" + (f"; {dataset}" if dataset else "")


def variant_name(objective: str, variant: str) -> str:
    """An objective with what was swept.

    Example:
        >>> variant_name("DCL", '{"class_probability":0.1}'), variant_name("CL", "{}")
        ('DCL,class_probability=0.1', 'CL')
    """
    return ",".join([objective, *(f"{key}={format_value(value)}" for key, value in json.loads(variant).items())])


def capitalised(text: str) -> str:
    """With a capital at the start, the rest as it is."""
    return text[:1].upper() + text[1:]


def seed_count(counts: Iterable[int]) -> str:
    """From how many seeds: ``"8 seeds"``, or the range where it differs.

    Example:
        >>> seed_count([8, 8]), seed_count([1]), seed_count([6, 8])
        ('8 seeds', '1 seed', '6 to 8 seeds')
    """
    found = sorted(set(map(int, counts)))
    if not found:
        return "no seed"
    if len(found) > 1:
        return f"{found[0]} to {found[-1]} seeds"
    return f"{found[0]} seed" if found == [1] else f"{found[0]} seeds"


def with_unit(text: str, of: str) -> str:
    """A name with its unit in brackets, if it has one."""
    return f"{text} ({of})" if of else text
