"""What was known about BCL's estimators before, measured again: each number beside the earlier one.

The earlier numbers come from one simulation of 1,000 anchors with rounded results, so they have an error of their
own, which is computed here from the spread over anchors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from trueneg.config.theory_study import SweepSettings
from trueneg.specs.experiments import BIASED, DCL, FORM_NAMES
from trueneg.theory.estimate import Tally, competitors, tally_errors
from trueneg.theory.scores import Setting

EARLIER_ANCHORS = 1000
PAPER, CONSISTENT = FORM_NAMES["paper"], FORM_NAMES["consistent"]
FIELDS = ["estimator", "quantity", "setting", "earlier low", "earlier high", "value", "standard error", "earlier error", "agrees"]
MSE = "mean squared error"
DEFAULT: Mapping[str, float] = {}
LONG, EQUAL = {"negatives": 4096}, {"negatives": 4096, "positives": 4096}


class Known(NamedTuple):
    """A number that was measured before.

    Attributes:
        estimator: whose.
        quantity: "bias", "mean squared error", "MSE minus that of …" or "MSE divided by that of …".
        low: the smallest number that the earlier result can have meant, its rounding considered.
        high: the largest; one of them is infinite where only an order was known.
        changes: of the default setting.
        told: α given to the BCL forms, if not the true one.
        beta: β of the BCL forms.
    """

    estimator: str
    quantity: str
    low: float
    high: float
    changes: Mapping[str, float] = DEFAULT
    told: float | None = None
    beta: float = 0.0


KNOWN: Sequence[Known] = (
    Known(PAPER, "bias", -0.0205, -0.0195),
    Known(PAPER, "bias", -0.0205, -0.0195, LONG),
    Known(CONSISTENT, "bias", -0.00085, -0.00075),
    Known(CONSISTENT, "bias", -0.00025, -0.00015, LONG),
    Known(BIASED, MSE, 0.00505, 0.00515),
    Known(DCL, MSE, 0.00205, 0.00215),
    Known(PAPER, MSE, 0.00135, 0.00145),
    Known(CONSISTENT, MSE, 0.00105, 0.00115),
    Known(DCL, MSE, 2.5e-5, 3.5e-5, EQUAL),
    Known(PAPER, MSE, 3.5e-4, 4.5e-4, EQUAL),
    Known(CONSISTENT, MSE, 1.5e-5, 2.5e-5, EQUAL),
    Known(DCL, MSE, 0.00695, 0.00705, {"positives": 1}),
    Known(BIASED, MSE, 0.00475, 0.00485, {"positives": 1}),
    Known(DCL, f"MSE minus that of {BIASED}", 0.0, np.inf, {"positives": 1}),
    Known(DCL, f"MSE minus that of {PAPER}", -np.inf, 0.0, {"alpha": 0.99}),
    Known(DCL, f"MSE minus that of {BIASED}", 0.0, np.inf, {"alpha": 0.5}),
    Known(PAPER, MSE, 0.00215, 0.00225, told=0.7),
    Known(PAPER, f"MSE divided by that of {DCL}", 30.0, 40.0, beta=0.9),
    Known(CONSISTENT, f"MSE divided by that of {DCL}", 30.0, 40.0, beta=0.9),
)


def protocol_numbers(setting: Setting, sweeps: SweepSettings, repetitions: int = 20) -> pd.DataFrame:
    """Each number of :data:`KNOWN`, measured again in the BCL paper's setting with the anchors and the seed of this one.

    The number of draws is that of the repetitions at N = 64.

    Returns:
        One row a number: ``estimator``, ``quantity``, ``setting`` (what differs from the default), ``earlier low``,
        ``earlier high`` (infinite where only an order was known), ``value``, ``standard error``, ``earlier error`` (the
        standard error that 1,000 anchors have; 0 for an order), ``agrees``: the value lies in the interval but for two
        standard errors of the difference; an order holds by more than two.
    """
    tallies: dict[str, tuple[list[str], Tally, int]] = {}
    rows = []
    for known in KNOWN:
        told = {"assumed alpha": known.told} if known.told else {}
        beta = {"beta": known.beta} if known.beta else {}
        differs = ", ".join(f"{name} {value:g}" for name, value in {**known.changes, **told, **beta}.items()) or "default"
        if differs not in tallies:
            one = replace(Setting(anchors=setting.anchors, seed=setting.seed), **known.changes)
            times = max(1, repetitions * Setting.negatives // one.negatives)
            contestants = competitors(known.told or one.alpha, one.class_probability, known.beta)
            tallies[differs] = list(contestants), tally_errors(one, contestants, times)[0], times * one.anchors
        names, tally, anchors = tallies[differs]
        value, error = _measured(known, names, tally)
        ordered = np.isinf(known.low) or np.isinf(known.high)
        earlier = 0.0 if ordered else error * np.sqrt(anchors / EARLIER_ANCHORS)
        reach = 2 * np.hypot(error, earlier)
        margin = -reach if ordered else reach  # an order must hold in spite of the error
        agrees = bool(known.low - margin <= value <= known.high + margin)
        rows.append((known.estimator, known.quantity, differs, known.low, known.high, value, error, earlier, agrees))
    return pd.DataFrame(rows, columns=FIELDS)


def _measured(known: Known, names: list[str], tally: Tally) -> tuple[float, float]:
    """Value and standard error, for a difference and a ratio to first order."""
    means, covariance = tally.moments("error" if known.quantity == "bias" else "squared")
    relation, _, other = known.quantity.partition(" that of ")
    own, second = names.index(known.estimator), names.index(other) if other else None
    gradient, value = np.zeros(len(means)), means[own]
    gradient[own] = 1.0
    if relation == "MSE minus":
        gradient[second] = -1.0
        value -= means[second]
    elif relation == "MSE divided by":
        value /= means[second]
        gradient[own], gradient[second] = 1 / means[second], -value / means[second]
    return value, np.sqrt(gradient @ covariance @ gradient)
