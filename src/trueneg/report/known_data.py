"""Sentences on what is known of the data before training: expected false negatives, every η, and who corrects for nothing."""

from collections.abc import Iterable, Mapping
from typing import Any

# Negatives per anchor: a method that corrects for fewer, at nearly all anchors, is numerically the one that corrects for none.
NEGLIGIBLE = 0.01
SHARED = {"classes": "share its class", "texts": "have its text", "matches": "match it (true η)"}


def sentences(facts_of: Iterable[tuple[str, str, Mapping[str, Any]]], baseline: str) -> tuple[list[str], list[str]]:
    """Return what is known of the data and every η, and a warning for each objective that is numerically the baseline.

    Args:
        facts_of: data set, objective and facts of runs (:mod:`trueneg.data.false_negatives`).
        baseline: name of the objective that is subtracted in comparisons.
    """
    lines: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for dataset, objective, facts in facts_of:
        count, expected, dose = facts["negatives"], facts["expected"], facts["dose"]
        shared = [f"{number:.3g} ({100 * number / count:.2g} %) {SHARED[key]}" for key, number in expected.items()]
        of_classes = [f"{_percent(*ends)}{group and f' ({group})'}" for group, ends in facts.get("frequencies", {}).items()]
        frequencies = f"; class frequencies {' and '.join(of_classes)}" if of_classes else ""
        lines[f"{dataset}: of an anchor's {count:,} negatives, about {' and '.join(shared)}{frequencies}"] = None
        for eta in facts["eta"].values():
            ends = f"{eta['minimum']:.2g} to {eta['maximum']:.2g} (median {eta['median']:.2g}, mean {eta['mean']:.2g})"
            values = f"{eta['mean']:.2g}" if eta["minimum"] == eta["maximum"] else ends
            lines[f"{dataset}, {objective}: η is {values}, N·η is {count * eta['mean']:.2g} on average"] = None
        if dose is not None and dose < NEGLIGIBLE and objective != baseline:
            key, number = max(expected.items(), key=lambda item: item[1])
            larger = f"class_probability {number / count:.2g} would have a dose" if number >= NEGLIGIBLE else "none would do more"
            warnings[
                f"{dataset}: {objective} is numerically {baseline}: for 99 % of the anchors, it corrects for at most "
                f"{dose:.2g} of {count:,} negatives; about {number:.2g} {SHARED[key]}, so {larger}"
            ] = None
    return [*lines], [*warnings]


def _percent(low: float, high: float) -> str:
    ends = dict.fromkeys(f"{100 * end:.1f} %" for end in (low, high))
    return " to ".join(ends)
