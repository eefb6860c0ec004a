"""Reproduce earlier results on BCL's estimators, and compare each number with the earlier one.

The earlier numbers are the rounded results of one simulation of 1,000 anchors, so they have their own standard error, which is
computed here from the spread over anchors.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from trueneg.config.theory_study import SweepSettings
from trueneg.specs.experiments import ESTIMATORS
from trueneg.theory.estimate import competitors, measure, simulate_estimates
from trueneg.theory.scores import Setting

EARLIER_ANCHORS = 1000
# One row per earlier number: the interval that contains the unrounded result (with one infinite bound where only an ordering was
# known), and the differences from the default setting: its fields, the α given to the BCL forms, and their β.
EARLIER = pd.read_csv(Path(__file__).with_suffix(".csv"), dtype={"negatives": "Int64", "positives": "Int64"})
PROCESS = ("negatives", "positives", "alpha")
ASSUMED, BETA = "assumed alpha", "beta"


def protocol_numbers(setting: Setting, sweeps: SweepSettings, repetitions: int = 20) -> pd.DataFrame:
    """Measure each number in :data:`EARLIER` again in the BCL paper's setting, with the anchors and seed of `setting`.

    Each N uses about as many scores as `repetitions` repetitions at N = 64.

    Returns:
        One row per result: ``estimator``, ``quantity`` ("bias", "mean squared error", "MSE minus that of …", "MSE divided by that
        of …"), ``setting`` (differences from the default), ``earlier low``, ``earlier high`` (infinite where only an ordering was
        known), ``value``, ``standard error``, ``earlier error`` (standard error with 1,000 anchors; 0 for an ordering) and
        ``agrees``: whether the value is within two standard errors of the interval, or an ordering holds by more than two.
    """
    default = Setting(anchors=setting.anchors, seed=setting.seed)
    errors: dict[str, np.ndarray] = {}  # (E, A) for each setting
    rows = []
    for known in EARLIER.to_dict("records"):
        changes = {name: known[name] for name in (*PROCESS, ASSUMED, BETA) if pd.notna(known[name])}
        differs = ", ".join(f"{name} {value:g}" for name, value in changes.items()) or "default"
        if differs not in errors:
            one = default.varied(**{name: changes[name] for name in PROCESS if name in changes})
            times = max(1, repetitions * default.negatives // one.negatives)
            contestants = competitors(changes.get(ASSUMED, one.alpha), one.class_probability, changes.get(BETA, 0.0))
            blocks = simulate_estimates(one, contestants, times)
            errors[differs] = np.hstack([estimates - drawn for estimates, drawn, _ in blocks])
        value, error = _measured(known["estimator"], known["quantity"], errors[differs])
        low, high = known["earlier low"], known["earlier high"]
        ordered = np.isinf([low, high]).any()
        earlier = 0.0 if ordered else error * np.sqrt(errors[differs].shape[1] / EARLIER_ANCHORS)
        reach = 2 * np.hypot(error, earlier)
        margin = -reach if ordered else reach  # an ordering must hold by more than the error
        agrees = bool(low - margin <= value <= high + margin)
        rows.append((known["estimator"], known["quantity"], differs, low, high, value, error, earlier, agrees))
    found = ["value", "standard error", "earlier error", "agrees"]
    return pd.DataFrame(rows, columns=["estimator", "quantity", "setting", "earlier low", "earlier high", *found])


def _measured(estimator: str, quantity: str, errors: np.ndarray) -> tuple[float, float]:
    """Return a value and its standard error, which is a first-order approximation for ratios."""
    own = errors[ESTIMATORS.index(estimator)]
    relation, _, reference = quantity.partition(" that of ")
    values = own if quantity == "bias" else own**2
    if reference:
        other = errors[ESTIMATORS.index(reference)] ** 2
        ratio = np.nanmean(values) / np.nanmean(other)
        linear = ratio + (values - ratio * other) / np.nanmean(other)
        values = values - other if relation == "MSE minus" else linear
    value, error, _ = measure([values[None]]).iloc[0]
    return value, error
