"""Reproduce earlier results on BCL's estimators, and compare each number with the earlier one.

The earlier numbers come from one simulation of 1,000 anchors with rounded results, so they have their own standard error, which
is computed here from the spread over anchors.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from trueneg.config.theory_study import SweepSettings
from trueneg.specs.experiments import ESTIMATORS
from trueneg.theory.estimate import Tally, competitors, tally_errors
from trueneg.theory.scores import Setting

EARLIER_ANCHORS = 1000
# One row per earlier number: the interval that contains the unrounded result (with one infinite bound where only an ordering was
# known), and the differences from the default setting: its fields, the α given to the BCL forms, and their β.
EARLIER = pd.read_csv(Path(__file__).with_suffix(".csv"))
PROCESS = ("negatives", "positives", "alpha")
ASSUMED, BETA = "assumed alpha", "beta"


def protocol_numbers(setting: Setting, sweeps: SweepSettings, repetitions: int = 20) -> pd.DataFrame:
    """Measure each number of :data:`EARLIER` again in the BCL paper's setting, with the anchors and seed of `setting`.

    The total number of draws is that of `repetitions` at N = 64.

    Returns:
        One row per number: ``estimator``, ``quantity`` ("bias", "mean squared error", "MSE minus that of …", "MSE divided by that
        of …"), ``setting`` (differences from the default), ``earlier low``, ``earlier high`` (infinite where only an ordering was
        known), ``value``, ``standard error``, ``earlier error`` (standard error with 1,000 anchors; 0 for an ordering) and
        ``agrees``: whether the value is within two standard errors of the interval, or an ordering holds by more than two.
    """
    default = Setting(anchors=setting.anchors, seed=setting.seed)
    tallies: dict[str, tuple[Tally, int]] = {}
    rows = []
    for known in EARLIER.to_dict("records"):
        changes = {name: known[name] for name in (*PROCESS, ASSUMED, BETA) if pd.notna(known[name])}
        differs = ", ".join(f"{name} {value:g}" for name, value in changes.items()) or "default"
        if differs not in tallies:
            one = replace(default, **{name: changes[name] for name in PROCESS if name in changes})
            times = max(1, repetitions * default.negatives // one.negatives)
            contestants = competitors(changes.get(ASSUMED, one.alpha), one.class_probability, changes.get(BETA, 0.0))
            tallies[differs] = tally_errors(one, contestants, times)[0], times * one.anchors
        tally, anchors = tallies[differs]
        value, error = _measured(known["estimator"], known["quantity"], tally)
        low, high = known["earlier low"], known["earlier high"]
        ordered = np.isinf([low, high]).any()
        earlier = 0.0 if ordered else error * np.sqrt(anchors / EARLIER_ANCHORS)
        reach = 2 * np.hypot(error, earlier)
        margin = -reach if ordered else reach  # an ordering must hold despite the error
        agrees = bool(low - margin <= value <= high + margin)
        rows.append((known["estimator"], known["quantity"], differs, low, high, value, error, earlier, agrees))
    found = ["value", "standard error", "earlier error", "agrees"]
    return pd.DataFrame(rows, columns=["estimator", "quantity", "setting", "earlier low", "earlier high", *found])


def _measured(estimator: str, quantity: str, tally: Tally) -> tuple[float, float]:
    """Return a value and its standard error, which is first-order for ratios."""
    means, covariance = tally.moments("error" if quantity == "bias" else "squared")
    relation, _, reference = quantity.partition(" that of ")
    own, other = ESTIMATORS.index(estimator), ESTIMATORS.index(reference or estimator)
    gradient, value = np.zeros(len(means)), means[own]
    gradient[own] = 1.0
    if relation == "MSE minus":
        gradient[other] = -1.0
        value -= means[other]
    elif relation == "MSE divided by":
        value /= means[other]
        gradient[own], gradient[other] = 1 / means[other], -value / means[other]
    return value, np.sqrt(gradient @ covariance @ gradient)
