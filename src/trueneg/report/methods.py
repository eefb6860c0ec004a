"""The methods of a study in its primary measurement: which are better than the baseline, at equal
temperatures too, and what the best of them gains.
"""

import functools
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from trueneg.config.equal_temperature import baseline_at, with_loss_of_baseline
from trueneg.legible import counted
from trueneg.report.claims import smaller_gain
from trueneg.report.gathered import Gathered
from trueneg.report.labels import edge_notes
from trueneg.report.layouts import compared_rows
from trueneg.report.metrics import amount, ends
from trueneg.report.tables.comparisons import of_primary
from trueneg.stats.candidates import cross_fitted
from trueneg.stats.comparison import paired_differences, primary_contrast

ELSEWHERE = "better at another temperature"
WORSE_THERE = "worse at equal temperature"
# how the sentence says each outcome, in its order
WORDS = {
    "better": "better than {}",
    "better by less than the margin": "better than {} by less than the margin",
    ELSEWHERE: "better than {} at its own temperature, but not shown to be at theirs",
    WORSE_THERE: "worse than {} at their temperature (not corrected)",
    "worse": "worse",
    "worse by less than the margin": "worse by less than the margin",
    "equivalent": "equivalent",
    "undecided": "we cannot tell",
    "interval only": "not tested",
}
# how a figure says those that are longer than a word; what is not shown at equal temperature, too,
# is undecided
IN_SHORT = {
    "better by less than the margin": "better",
    "worse by less than the margin": "worse",
    ELSEWHERE: "undecided",
    WORSE_THERE: "worse, not corrected",
    "interval only": "not tested",
}


@functools.lru_cache(maxsize=1)
def gains(gathered: Gathered) -> Mapping[str, Any]:
    """Return the smaller gain (:func:`least_gain`) of the treatment and of each objective whose
    loss is not the baseline's. Its outcome is that of the comparison with the baseline, after
    Holm's correction, as far as the smaller gain agrees (:func:`_agreed`).
    """
    table = of_primary(gathered)
    table = table[table["contrast"] == table["objective"] + f" − {gathered.baseline}"]
    same_loss = with_loss_of_baseline(gathered.study)
    asked = gathered.study.primary.treatment
    names = [name for name in gathered.study.objectives if name == asked or name not in same_loss]
    found = {}
    for row in table[table["objective"].isin(names)].to_dict("records"):
        gain = least_gain(gathered, row["objective"])
        is_same = gain["baseline"] == gathered.baseline
        outcome = row["outcome"] if is_same else _agreed(row["outcome"], gain)
        found[row["objective"]] = {**gain, "outcome": outcome}
    return found


def _agreed(outcome: str, gain: Any) -> str:
    """Return what can be said of the comparison with the baseline and of that at equal
    temperature, where the gain is smaller: better only if the smaller gain's interval is
    above zero, equivalent only if the smaller gain is, and nothing but worse if that is worse.
    """
    if gain["outcome"].startswith("worse") and not outcome.startswith("worse"):
        return WORSE_THERE
    low = gain["difference"] if math.isnan(gain["low"]) else gain["low"]  # all seeds agree
    if outcome.startswith("better") and not low > 0:
        return ELSEWHERE
    if outcome == "equivalent" and gain["outcome"] != outcome:
        return "undecided"
    return outcome


def outcomes(gathered: Gathered) -> dict[str, str]:
    """Return the outcome of each method against the baseline, as in :func:`gains`."""
    found = gains(gathered)
    return {name: found[name]["outcome"] for name in gathered.methods if name in found}


def least_gain(gathered: Gathered, name: str) -> Any:
    """Return what an objective gains over the baseline, or over the baseline at its temperature if
    that was measured and the gain is smaller.
    """
    rows = compared_rows(gathered)
    return smaller_gain(
        gathered.study, rows, gathered.dataset, _selected(gathered), name, gathered.crossed
    )[0]


def kind_of_methods(gathered: Gathered) -> str:
    """Return " without labels", which sentences about the methods say, or "" if the positives of
    all of them are drawn by label.
    """
    return "" if gathered.study.positives_by_label else " without labels"


def best_of(gathered: Gathered, names: list[str]) -> Any:
    """Return the smaller gain of the best of several methods like :func:`least_gain`, but
    cross-fitted; None with fewer than two seeds. ``objective`` lists those that were chosen.
    """
    rows = gathered.primary.rows_of(compared_rows(gathered))
    rows = rows[rows["dataset"] == gathered.dataset]
    best = cross_fitted(rows, names)
    if best.empty:
        return None
    baseline = gathered.baseline
    chosen = dict.fromkeys(best["chosen"])
    variants = gathered.compared_variants
    same = {name: baseline_at(gathered.study, variants, name) or baseline for name in chosen}
    beside = rows[rows["objective"] == rows["seed"].map(best.set_index("seed")["chosen"].map(same))]
    at_equal = " or ".join(dict.fromkeys(same.values()))
    sides = {baseline: rows[rows["objective"] == baseline], at_equal: beside}
    found = [
        paired_differences(pd.concat([best, side.assign(objective=name)]), name).iloc[0]
        for name, side in sides.items()
    ]
    return {**min(found, key=lambda row: row["difference"]), "objective": " or ".join(chosen)}


def at_equal_temperature(gathered: Gathered, name: str) -> Any:
    """Return what an objective gains over the baseline at its temperature, or over the baseline if
    that was not measured.
    """
    same = baseline_at(gathered.study, gathered.compared_variants, name) or gathered.baseline
    return primary_contrast(
        compared_rows(gathered),
        name,
        same,
        gathered.primary,
        gathered.dataset,
        crossed=gathered.crossed,
    )


def _selected(gathered: Gathered) -> list[Any]:
    entries = gathered.comparison["selection"]
    return [entry for entry in entries if entry["dataset"] == gathered.dataset]


def of_methods(gathered: Gathered) -> list[str]:
    """Say which of the other methods are better or worse than the baseline, what the best of them
    gains, and which are at the edge of their grids; empty if there are none.
    """
    found = outcomes(gathered)
    found.pop(gathered.study.primary.treatment, None)
    if not found:
        return []
    groups: dict[str, list[str]] = {}
    for name, outcome in found.items():
        groups.setdefault(outcome, []).append(name)
    clauses = [
        f"{word.format(gathered.baseline)}: {', '.join(groups[outcome])}"
        for outcome, word in WORDS.items()
        if outcome in groups
    ]
    if len(found) > 1 and (row := best_of(gathered, [*found])) is not None:
        metric = row["metric"]
        same = "" if gathered.crossed is None else ", on the same test samples"
        clauses.append(
            f"the best in one half of the seeds, {row['objective']}, differs by"
            f" {amount(row['difference'], metric, signed=True, difference=True)}"
            f" ({ends(row['low'], row['high'], metric)}) in the other half{same}"
        )
    count = counted(len(found), "other method")
    kind = kind_of_methods(gathered)
    primary = gathered.study.primary
    stated = (primary.treatment, primary.baseline, primary.oracle)  # the answer has their edges
    others = [entry for entry in _selected(gathered) if entry["objective"] not in stated]
    return [
        f"Of {count}{kind}, after Holm's correction: {'; '.join(clauses)}.",
        *edge_notes(entry for entry in others if entry["objective"] in found),
    ]
