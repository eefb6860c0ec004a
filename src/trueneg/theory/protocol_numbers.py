"""What was known about BCL's estimators before, measured again: each number beside the earlier one.

The earlier numbers come from one simulation of 1,000 anchors with rounded results, so they have an error of their
own, which is computed here from the spread over anchors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from trueneg.specs.experiments import BIASED, DCL, FORM_NAMES
from trueneg.theory.estimate import Tally, competitors, tally_errors
from trueneg.theory.scores import Setting

EARLIER_ANCHORS = 1000
PAPER, CONSISTENT = FORM_NAMES["paper"], FORM_NAMES["consistent"]


@dataclass(frozen=True)
class Known:
    """A number that was measured before.

    Attributes:
        estimator: whose.
        quantity: "bias", "mean squared error", "MSE minus that of …" or "MSE divided by that of …".
        low: the smallest number that the earlier result can have meant, its rounding considered.
        high: the largest.
        changes: of the default setting.
        told: α that the BCL forms are told, if not the true one.
        beta: β of the BCL forms.
    """

    estimator: str
    quantity: str
    low: float
    high: float
    changes: dict[str, float] = field(default_factory=dict)
    told: float | None = None
    beta: float = 0.0


def _rounded(estimator: str, quantity: str, number: str, **others) -> Known:
    """A number as it was printed: its last digit is rounded."""
    digits, _, power = number.partition("e")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return Known(estimator, quantity, float(number) - unit / 2, float(number) + unit / 2, **others)


LONG, EQUAL = {"negatives": 4096}, {"negatives": 4096, "positives": 4096}
MSE = "mean squared error"
KNOWN: Sequence[Known] = (
    _rounded(PAPER, "bias", "-0.020"),
    _rounded(PAPER, "bias", "-0.020", changes=LONG),
    _rounded(CONSISTENT, "bias", "-0.0008"),
    _rounded(CONSISTENT, "bias", "-0.0002", changes=LONG),
    _rounded(BIASED, MSE, "0.0051"),
    _rounded(DCL, MSE, "0.0021"),
    _rounded(PAPER, MSE, "0.0014"),
    _rounded(CONSISTENT, MSE, "0.0011"),
    _rounded(DCL, MSE, "3e-5", changes=EQUAL),
    _rounded(PAPER, MSE, "4e-4", changes=EQUAL),
    _rounded(CONSISTENT, MSE, "2e-5", changes=EQUAL),
    _rounded(DCL, MSE, "0.0070", changes={"positives": 1}),
    _rounded(BIASED, MSE, "0.0048", changes={"positives": 1}),
    Known(DCL, f"MSE minus that of {BIASED}", 0.0, np.inf, changes={"positives": 1}),
    Known(DCL, f"MSE minus that of {PAPER}", -np.inf, 0.0, changes={"alpha": 0.99}),
    Known(DCL, f"MSE minus that of {BIASED}", 0.0, np.inf, changes={"alpha": 0.5}),
    _rounded(PAPER, MSE, "0.0022", told=0.7),
    Known(PAPER, f"MSE divided by that of {DCL}", 30.0, 40.0, beta=0.9),
    Known(CONSISTENT, f"MSE divided by that of {DCL}", 30.0, 40.0, beta=0.9),
)


def protocol_numbers(setting: Setting, *, repetitions: int = 20) -> pd.DataFrame:
    """Each number of :data:`KNOWN`, measured again.

    Args:
        setting: gives anchors and seed; all else is what the numbers were measured with, the BCL paper's setting.
        repetitions: how many times its anchors are drawn at N = 64; at larger N as many as make the same number of
            draws, at least one.

    Returns:
        One row a number: ``estimator``, ``quantity``, ``setting`` (what differs from the default), ``earlier low``,
        ``earlier high`` (infinite where only an order was known), ``value``, ``standard error``, ``earlier error`` (the
        standard error that 1,000 anchors have; 0 for an order), ``agrees``: the value lies in the interval but for two
        standard errors of the difference; an order holds by more than two.
    """
    tallies: dict[tuple, tuple[list[str], Tally, int]] = {}
    rows = []
    for known in KNOWN:
        key = (tuple(known.changes.items()), known.told, known.beta)
        if key not in tallies:
            one = Setting(anchors=setting.anchors, seed=setting.seed, **known.changes)
            times = max(1, repetitions * Setting.negatives // one.negatives)
            contestants = competitors(known.told or one.alpha, one.class_probability, known.beta)
            tallies[key] = list(contestants), tally_errors(one, contestants, times)[0], times * one.anchors
        names, tally, anchors = tallies[key]
        rows.append({**_described(known), **_compared(known, names, tally, anchors)})
    return pd.DataFrame(rows)


def _described(known: Known) -> dict[str, str | float]:
    told = {} if known.told is None else {"assumed alpha": known.told}
    beta = {} if known.beta == 0 else {"beta": known.beta}
    setting = ", ".join(f"{name} {value:g}" for name, value in {**known.changes, **told, **beta}.items())
    return {
        "estimator": known.estimator,
        "quantity": known.quantity,
        "setting": setting or "default",
        "earlier low": known.low,
        "earlier high": known.high,
    }


def _compared(known: Known, names: list[str], tally: Tally, anchors: int) -> dict[str, float | bool]:
    value, error = _measured(known, names, tally)
    ordered = np.isinf(known.low) or np.isinf(known.high)
    earlier = 0.0 if ordered else error * np.sqrt(anchors / EARLIER_ANCHORS)
    reach = 2 * np.hypot(error, earlier)
    margin = -reach if ordered else reach  # an order must hold in spite of the error
    agrees = known.low - margin <= value <= known.high + margin
    return {"value": value, "standard error": error, "earlier error": earlier, "agrees": bool(agrees)}


def _measured(known: Known, names: list[str], tally: Tally) -> tuple[float, float]:
    """Value and standard error, for a difference and a ratio to first order."""
    own = names.index(known.estimator)
    means, covariance = tally.moments("error" if known.quantity == "bias" else "squared")
    gradient, value = np.zeros(len(means)), means[own]
    gradient[own] = 1.0
    relation, _, other = known.quantity.partition(" that of ")
    if relation == "MSE minus":
        gradient[names.index(other)] = -1.0
        value -= means[names.index(other)]
    elif relation == "MSE divided by":
        value /= means[names.index(other)]
        gradient[own] = 1 / means[names.index(other)]
        gradient[names.index(other)] = -value / means[names.index(other)]
    return value, np.sqrt(gradient @ covariance @ gradient)
