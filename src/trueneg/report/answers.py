"""Sentences on a data set's headroom and on what a comparison found."""

from typing import Any

import pandas as pd

from trueneg.report.labels import seed_count
from trueneg.report.metrics import (
    amount,
    ends,
    evaluation_name,
    higher_is_better,
    margin_text,
    metric_name,
    with_interval,
    written,
)
from trueneg.stats.comparison import NOT_ABOVE_CHANCE
from trueneg.stats.measurement import Measurement

LEVEL = "95 %"  # confidence level of every interval


def headroom_sentence(row: Any, metric: str, baseline: str, oracle: str | None) -> str:
    """State the headroom of a data set for corrections of false negatives.

    Args:
        row: row from :func:`trueneg.stats.comparison.headroom`.
        metric: name of the measured metric.
        baseline: display name of the uncorrected objective.
        oracle: display name of the objective that knows the false negatives, if there is one.
    """
    seeds = seed_count([row["seeds"]])
    if row["seeds"] < 2:
        share = f"{baseline} has" if oracle is None else f"{baseline} and {oracle} share"
        return f"unknown headroom: {share} {seeds}, but at least 2 are needed"
    reached = f"{baseline} reaches {with_interval(row['baseline mean'], row['baseline low'], row['baseline high'], metric)}"
    level = f"{reached}, chance is {amount(row['chance'], metric)} ({LEVEL} intervals, {seeds})"
    gain = with_interval(row["difference"], row["low"], row["high"], metric, signed=True)
    of_oracle = "no oracle is named" if oracle is None else f"{oracle} − {baseline} is {gain}"
    if row["label"] == NOT_ABOVE_CHANCE:
        return f"{baseline} is {row['label']}: {of_oracle}; {level}"
    return f"{row['label']} for corrections of false negatives: {of_oracle}; {level}"


def answer(row: Any, treatment: str, baseline: str, published: float | None = None) -> str:
    """State the answer to a study's question, with the seeds, the measurement and, if undecided, the power.

    Args:
        row: row from :func:`trueneg.stats.comparison.primary_contrast`.
        treatment: display name of the objective under test.
        baseline: display name of the objective that it is compared with.
        published: published difference, in the metric's own unit, to compare with the minimum detectable difference.
    """
    metric = row["metric"]
    measured = f"Measured with {seed_count([row['seeds']])}: {evaluation_name(Measurement.of(row))}."
    sentences = [f"{finding(row, treatment, baseline)}.", measured]
    if row["outcome"] == "undecided" and pd.notna(row["p"]):
        detectable = amount(row["minimum detectable"], metric, difference=True)
        power = f"A difference of {detectable} would have been detected with a power of 80 %, given this standard deviation"
        if published is not None:
            power += f"; the published difference is {amount(published, metric, signed=True, difference=True)}"
        sentences.append(f"{power}.")
    return " ".join(sentences)


def finding(row: Any, treatment: str, baseline: str) -> str:
    """State in a clause what a comparison found: a gain, a loss, equivalence, or no verdict.

    Gains, losses and their intervals are positive in the direction that the outcome names, even where lower is better. Other
    differences keep their sign.

    Args:
        row, treatment, baseline: as for :func:`answer`.
    """
    metric, seeds = row["metric"], seed_count([row["seeds"]])
    name = f"{metric_name(Measurement.of(row))} on {row['dataset']}"
    cannot_tell = f"We cannot tell whether {treatment} is better or worse than {baseline}"
    if row["seeds"] < 2:
        return f"{cannot_tell}: they share {seeds}, but at least 2 are needed"
    difference = f"the difference in {name} is {amount(row['difference'], metric, signed=True, difference=True)}"
    if pd.isna(row["p"]):
        return f"{cannot_tell}: {difference} in each of {seeds}, without variation to judge it by"
    margin = "" if pd.isna(row["margin"]) else margin_text(row["margin"], metric)
    difference += f" ({LEVEL} interval {ends(row['low'], row['high'], metric)})"
    difference += "" if higher_is_better(metric) else ", and lower is better"
    match row["outcome"].split(" ")[0]:
        case "equivalent":
            return f"{treatment} and {baseline} are equivalent within {margin}: {difference}"
        case "undecided":
            return f"{cannot_tell}: {difference}"
        case ranked:
            verb, preposition = ("gains", "over") if ranked == "better" else ("loses", "against")
            size = amount(abs(row["difference"]), metric, difference=True)
            within = f", less than the margin of {margin}" if row["outcome"] != ranked else ""
            low, high = sorted((abs(row["low"]), abs(row["high"])))
            reach = ends(low, high, metric, signed=False)
            return f"{treatment} {verb} {size} {preposition} {baseline} in {name}{within} ({LEVEL} interval {reach})"


def knowing_the_labels(row: Any, metric: str) -> str:
    """State in a clause what the oracle gains; empty without an interval.

    Args:
        row: row from :func:`trueneg.stats.comparison.headroom`.
        metric: name of the measured metric.
    """
    if pd.isna(row["low"]):
        return ""
    if row["low"] <= 0 <= row["high"]:
        reach = ends(row["low"], row["high"], metric)
        return f"knowing the labels gives {written(row['difference'], metric, signed=True)} ({reach})"
    gains = (row["difference"] > 0) == higher_is_better(metric)
    low, high = sorted((abs(row["low"]), abs(row["high"])))
    reach = ends(low, high, metric, signed=False)
    return f"knowing the labels {'gains' if gains else 'loses'} {written(abs(row['difference']), metric)} ({reach})"
