"""How figures and tables call things; objectives and data sets keep the names of the configuration."""

import re
from collections.abc import Iterable

from trueneg.stats.metrics import metric_name, task_name, unit

INTERVAL = "95\u00a0% t intervals over seeds"
PAIRED_INTERVAL = "95\u00a0% paired t intervals over seeds"


def axis_label(metric: str) -> str:
    """The metric with its unit, for the axis that shows its values."""
    return with_unit(capitalised(metric_name(metric)), unit(metric))


def difference_label(metric: str, baseline: str) -> str:
    """The difference of a metric to the baseline with its unit, for the axis that shows it."""
    return with_unit(f"{capitalised(metric_name(metric))}\nminus that of {baseline}", unit(metric, difference=True))


def measurement(task: str, setting: str, split: str, dataset: str = "") -> str:
    """Which evaluation a figure or table shows.

    Args:
        task: as in the rows.
        setting: as in the rows; may be empty.
        split: such as ``"test"``.
        dataset: its label; empty: none is named.

    Example:
        >>> measurement("knn", "labels=all", "test", "fraction=0.1")
        'Test split: kNN, labels=all; fraction=0.1'
    """
    what = ", ".join(part for part in (task_name(task), setting) if part)
    return f"{capitalised(split)} split: {what}" + (f"; {dataset}" if dataset else "")


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


def read_setting(setting: str) -> dict[str, str]:
    """The parts of a setting.

    Example:
        >>> read_setting("labels=all, fraction=0.1")
        {'labels': 'all', 'fraction': '0.1'}
    """
    return dict(re.findall(r"(\w+)=([^,]+)", setting))


def with_unit(text: str, of: str) -> str:
    """A name with its unit in brackets, if it has one."""
    return f"{text} ({of})" if of else text
