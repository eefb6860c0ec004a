"""Sentences for the headroom of a data set and for the answer to a study's question."""

from typing import Any

import pandas as pd

from trueneg.report.labels import seed_count
from trueneg.report.metrics import amount, evaluation_name, interval, metric_name, with_interval
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
    """State the answer to a study's question.

    Args:
        row: row from :func:`trueneg.stats.comparison.primary_contrast`.
        treatment: display name of the objective under test.
        baseline: display name of the objective that it is compared with.
        published: published difference, in the metric's own unit, to compare with the minimum detectable difference.
    """
    metric, measured, seeds = row["metric"], Measurement.of(row), seed_count([row["seeds"]])
    what = f"{metric_name(measured)}, {evaluation_name(measured)}; {row['dataset']}"

    def size(difference: float) -> str:
        return amount(abs(difference), metric, difference=True)

    undecided = f"It is undecided whether {treatment} differs from {baseline}"
    if row["seeds"] < 2:
        return f"{undecided}: they share {seeds}, but at least 2 are needed ({what})."
    gain = amount(row["difference"], metric, signed=True, difference=True)
    if pd.isna(row["p"]):
        return f"{undecided}: {gain} in each of {seeds}, without variation to judge it by ({what})."
    numbers = f"{gain}, {LEVEL} paired interval {interval(row['low'], row['high'], metric)}, {seeds}"
    match row["outcome"].split(" ")[0]:
        case "equivalent":
            return f"{treatment} and {baseline} are equivalent within {size(row['margin'])}: {numbers} ({what})."
        case "undecided":
            power = f"a difference of {size(row['minimum detectable'])} would have been detected with a power of 80 %"
            if published is not None:
                power += f"; the published difference is {amount(published, metric, signed=True, difference=True)}"
            return f"{undecided}: {numbers}; {power} ({what})."
        case ranked:
            within = f", by less than the margin of {size(row['margin'])}" if row["outcome"] != ranked else ""
            return f"{treatment} is {ranked} than {baseline}{within}: {numbers} ({what})."
