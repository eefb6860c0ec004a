"""The methods of a study in its primary measurement: which are better than the baseline, at equal
temperatures too, and what the best of them gains.
"""

from typing import Any

import pandas as pd

from trueneg.config.equal_temperature import with_loss_of_baseline
from trueneg.legible import counted
from trueneg.report.claims import smaller_gain
from trueneg.report.gathered import Gathered
from trueneg.report.layouts import compared_rows
from trueneg.report.metrics import amount, ends
from trueneg.report.tables.comparisons import of_primary
from trueneg.stats.candidates import cross_fitted
from trueneg.stats.comparison import paired_differences

ELSEWHERE = "better at another temperature"
# how the sentence says each outcome, in its order
WORDS = {
    "better": "better than {}",
    ELSEWHERE: "better than {} at its own temperature, but not shown to be at theirs",
    "worse": "worse",
    "equivalent": "equivalent",
    "undecided": "we cannot tell",
}


def outcomes(gathered: Gathered) -> dict[str, str]:
    """Return the outcome of each method against the baseline, after Holm's correction; better
    only if its interval at equal temperatures is above zero, too.
    """
    table = of_primary(gathered)
    table = table[table["contrast"] == table["objective"] + f" − {gathered.baseline}"]
    found = dict(zip(table["objective"], table["outcome"].str.split(" ").str[0], strict=True))
    same_loss = with_loss_of_baseline(gathered.study)
    names = [name for name in gathered.methods if name in found and name not in same_loss]
    return {
        name: ELSEWHERE
        if found[name] == "better" and not least_gain(gathered, name)["low"] > 0
        else found[name]
        for name in names
    }


def least_gain(gathered: Gathered, name: str) -> Any:
    """Return what an objective gains over the baseline, or over the baseline at its temperature if
    that was measured and the gain is smaller.
    """
    selection = gathered.selection
    of_dataset = selection[selection["dataset"] == gathered.dataset].to_dict("records")
    rows = compared_rows(gathered)
    return smaller_gain(gathered.study, rows, gathered.dataset, of_dataset, name, gathered.crossed)[
        0
    ]


def best_of(gathered: Gathered, names: list[str]) -> Any:
    """Return the gain of the best of several methods, cross-fitted; None with fewer than two seeds.
    ``objective`` lists those that were chosen. If it is one, its gain is :func:`least_gain`; of
    several, that over the baseline.
    """
    rows = gathered.primary.rows_of(compared_rows(gathered))
    rows = rows[rows["dataset"] == gathered.dataset]
    best = cross_fitted(rows, names)
    if best.empty:
        return None
    chosen = list(dict.fromkeys(best["chosen"]))
    if len(chosen) == 1:
        return least_gain(gathered, chosen[0])
    row = paired_differences(pd.concat([rows, best]), gathered.baseline, ["best"]).iloc[0]
    return {**row, "objective": " or ".join(chosen)}


def of_methods(gathered: Gathered) -> list[str]:
    """Say which of the other methods are better or worse than the baseline, and what the best of
    them gains; empty if there are none.
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
        clauses.append(
            "the best of them, chosen on one half of the seeds and measured on the other, gains"
            f" {amount(row['difference'], metric, signed=True, difference=True)}"
            f" ({ends(row['low'], row['high'], metric)})"
        )
    kind = "" if gathered.study.positives_by_label else " without labels"
    return [f"Of {counted(len(found), 'other method')}{kind}: {'; '.join(clauses)}."]
