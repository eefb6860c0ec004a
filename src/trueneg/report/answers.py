"""The gate's verdict and the answer to a study's question, as sentences."""

from collections.abc import Mapping
from typing import Any

from trueneg.report.metrics import evaluation_name, metric_name, unit, written
from trueneg.stats.measurement import Measurement

LEVEL = "95 %"  # of every interval


def verdict(row: Mapping[str, Any], metric: str, baseline: str, oracle: str | None) -> str:
    """Whether a data set can tell anything.

    Args:
        row: of :func:`trueneg.stats.comparison.gate`.
        metric: that was measured.
        baseline: display name of the uncorrected objective.
        oracle: of the objective that knows the labels, if there is one.
    """
    above_chance, oracle_wins = row["above chance"], row["oracle wins"]
    percent = f" {unit(metric)}".rstrip()
    reached = f"{baseline} reaches {written(row['baseline mean'], metric)}{percent}"
    within = _interval(row["baseline low"], row["baseline high"], metric, signed=False)
    guess = f"{written(row['chance'], metric)}{percent}"
    gain = f"{_amount(row['difference'], metric, signed=True)} {_interval(row['low'], row['high'], metric)}"
    counted = f"{LEVEL} intervals, {_seeds(row['seeds'])}"
    if above_chance and oracle is None:
        unknown = "what is true of other images is not known here, so how much could be gained is not measured"
        return f"above chance: {reached} {within}, chance is {guess}; {unknown} ({counted})"
    if above_chance and oracle_wins:
        return f"informative: {reached} {within}, chance is {guess}, and {oracle} gains {gain} ({counted})"
    failed = "uninformative at this size"
    if row["seeds"] < 2:
        shared = baseline if oracle is None else f"{baseline} and {oracle} share"
        return f"{failed}: {shared}{' has' if oracle is None else ''} {_seeds(row['seeds'])}, at least 2 are needed"
    reasons = []
    if not above_chance:
        reasons.append(f"{reached} {within}, not clearly better than chance ({guess})")
    if not oracle_wins:
        reasons.append(f"{oracle} − {baseline} is {gain}, not clearly a gain")
    return f"{failed}: {' and '.join(reasons)} ({counted})"


def answer(row: Mapping[str, Any], treatment: str, baseline: str, expected: float | None = None) -> str:
    """The answer to a study's question.

    Args:
        row: of :func:`trueneg.stats.comparison.primary_contrast`.
        treatment: display name of the objective whose gain is asked for.
        baseline: of the objective that it is compared with.
        expected: as for :func:`trueneg.stats.comparison.primary_contrast`.
    """
    metric, measured = row["metric"], Measurement.of(row)
    what = f"{metric_name(measured)}, {evaluation_name(measured)}; {row['dataset']}"
    if row["seeds"] < 2:
        return (
            f"Cannot tell whether {treatment} differs from {baseline}: they share {_seeds(row['seeds'])}, "
            f"at least 2 are needed ({what})."
        )
    numbers = (
        f"{_amount(row['difference'], metric, signed=True)}, {LEVEL} paired interval "
        f"{_interval(row['low'], row['high'], metric)}, {_seeds(row['seeds'])}"
    )
    power = f"the minimum detectable difference is {_amount(row['smallest detectable'], metric)}"
    match row["conclusion"]:
        case "uninformative":
            return f"Uninformative at this size, no ranking of {treatment} and {baseline} ({what}: {numbers})."
        case "better" | "worse":
            return f"{treatment} is {row['conclusion']} than {baseline}: {numbers} ({what})."
        case "cannot tell":
            power += f", the expected difference is {_amount(abs(expected), metric)}"
            return f"Cannot tell whether {treatment} differs from {baseline}: {numbers}; {power} ({what})."
        case _:
            return f"No difference seen between {treatment} and {baseline}: {numbers}; {power} ({what})."


def _interval(low: float, high: float, metric: str, signed: bool = True) -> str:
    return f"[{written(low, metric, signed)}, {written(high, metric, signed)}]"


def _seeds(count: int) -> str:
    return f"{count} seed" + ("" if count == 1 else "s")


def _amount(value: float, metric: str, signed: bool = False) -> str:
    return f"{written(value, metric, signed)} {unit(metric, difference=True)}".rstrip()
