"""Sentences on what is known before training: expected false negatives, every η, and objectives
that are unlikely to work.
"""

from collections.abc import Iterable, Mapping
from typing import Any

# Negatives per anchor: a method that corrects for fewer, at nearly all anchors, is numerically the
# one that corrects for none.
NEGLIGIBLE = 0.01
SHARED = {"classes": "share its class", "texts": "have its text", "matches": "match it (true η)"}


def sentences(
    facts_of: Iterable[tuple[str, str, Mapping[str, Any]]], baseline: str
) -> tuple[list[str], list[str]]:
    """Return what is known about the data and every η, and warnings about objectives that are
    uncorrected or unlikely to work.

    Args:
        facts_of: data set, objective and facts of runs (:mod:`trueneg.data.false_negatives`).
        baseline: name of the objective that is subtracted in comparisons, which needs no warning.
    """
    lines = []
    warnings = []
    for dataset, objective, facts in facts_of:
        count = facts["negatives"]
        eta = facts.get("eta")
        shared = [
            f"{number:.3g} ({100 * number / count:.2g} %) {SHARED[key]}"
            for key, number in facts["expected"].items()
        ]
        expected = f"of an anchor's {count:,} negatives, about {' and '.join(shared)}"
        lines.append(f"{dataset}: {expected}")
        if texts := facts.get("texts"):
            lines[-1] += (
                f"; {texts['repeated']:,} of {texts['all']:,} training texts equal another one"
                " after normalisation"
            )
        if certain := facts.get("certain"):
            lines.append(f"{dataset}: of the training rows, {certain}")
        if by_rank := facts.get("false_by_rank"):
            listed = (f"{100 * share:.3g} % of the first {rank}" for rank, share in by_rank.items())
            lines.append(f"{dataset}: of the nearest texts, {', '.join(listed)} share its class")
        if (draws := facts.get("draws")) and draws["mean"] < draws["least"]:
            warnings.append(
                f"{dataset}: {objective} draws each training sample {draws['mean']:.2g} times, but"
                f" learns something about each; expected at least {draws['least']}; train longer,"
                " or on fewer samples"
            )
        warnings += [f"{dataset}: {objective} {warning}" for warning in facts.get("warnings", ())]
        # such as hardness weighting alone
        if eta is None or (eta["maximum"] == 0 and not facts["only_eta"]):
            continue
        ends = f"{eta['minimum']:.2g} to {eta['maximum']:.2g}, on average "
        lines.append(
            f"{dataset}, {objective}: η is"
            f" {ends if eta['minimum'] < eta['maximum'] else ''}{eta['mean']:.2g}, N·η"
            f" {count * eta['mean']:.2g}"
        )
        if facts["only_eta"] and count * eta["most"] < NEGLIGIBLE and objective != baseline:
            warnings.append(
                f"{dataset}: {objective} is numerically uncorrected: for 99 % of the anchors, it"
                f" corrects for at most {count * eta['most']:.2g} negatives; {expected}"
            )
    return list(dict.fromkeys(lines)), list(dict.fromkeys(warnings))
