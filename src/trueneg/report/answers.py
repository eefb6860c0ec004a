"""Sentences for the gate's verdict and for the answer to a study's question."""

from typing import Any

from trueneg.report.labels import seed_count
from trueneg.report.metrics import amount, evaluation_name, interval, metric_name, with_interval
from trueneg.stats.measurement import Measurement

LEVEL = "95 %"  # confidence level of every interval


def verdict(row: Any, metric: str, baseline: str, oracle: str | None) -> str:
    """State whether a data set is informative.

    Args:
        row: row from :func:`trueneg.stats.comparison.gate`.
        metric: name of the measured metric.
        baseline: display name of the uncorrected objective.
        oracle: display name of the objective that uses the labels, if there is one.
    """
    failed, seeds = "uninformative at this size", seed_count([row["seeds"]])
    if row["seeds"] < 2:
        share = f"{baseline} has" if oracle is None else f"{baseline} and {oracle} share"
        return f"{failed}: {share} {seeds}, but at least 2 are needed"
    reached = f"{baseline} reaches {with_interval(row['baseline mean'], row['baseline low'], row['baseline high'], metric)}"
    gain = with_interval(row["difference"], row["low"], row["high"], metric, signed=True)
    chance, counted = amount(row["chance"], metric), f"({LEVEL} intervals, {seeds})"
    if row["passed"] and oracle is None:
        unknown = "the false negatives are not known here, so the possible gain is not measured"
        return f"above chance: {reached}, chance is {chance}; {unknown} {counted}"
    if row["passed"]:
        return f"informative: {reached}, chance is {chance}, and {oracle} gains {gain} {counted}"
    reasons = []
    if not row["above chance"]:
        reasons.append(f"{reached}, not clearly better than chance ({chance})")
    if not row["oracle wins"]:
        reasons.append(f"{oracle} − {baseline} is {gain}, not clearly a gain")
    return f"{failed}: {' and '.join(reasons)} {counted}"


def answer(row: Any, treatment: str, baseline: str, expected: float | None = None) -> str:
    """State the answer to a study's question.

    Args:
        row: row from :func:`trueneg.stats.comparison.primary_contrast`.
        treatment: display name of the objective under test.
        baseline: display name of the objective that it is compared with.
        expected: expected difference, as in :func:`trueneg.stats.comparison.primary_contrast`.
    """
    metric, measured, seeds = row["metric"], Measurement.of(row), seed_count([row["seeds"]])
    what = f"{metric_name(measured)}, {evaluation_name(measured)}; {row['dataset']}"
    if row["seeds"] < 2:
        return f"Cannot tell whether {treatment} differs from {baseline}: they share {seeds}, but at least 2 are needed ({what})."
    within = f"{LEVEL} paired interval {interval(row['low'], row['high'], metric)}"
    numbers = f"{amount(row['difference'], metric, signed=True, difference=True)}, {within}, {seeds}"
    power = f"the minimum detectable difference is {amount(row['smallest detectable'], metric, difference=True)}"
    match row["conclusion"]:
        case "uninformative":
            return f"Uninformative at this size, so {treatment} and {baseline} are not ranked: {numbers} ({what})."
        case "better" | "worse":
            return f"{treatment} is {row['conclusion']} than {baseline}: {numbers} ({what})."
        case "cannot tell" if expected is not None:
            power += f", the expected difference is {amount(abs(expected), metric, difference=True)}"
            return f"Cannot tell whether {treatment} differs from {baseline}: {numbers}; {power} ({what})."
        case _:
            return f"No difference seen between {treatment} and {baseline}: {numbers}; {power} ({what})."
