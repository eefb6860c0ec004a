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
    for earlier in EARLIER.to_dict("records"):
        changes = {name: earlier[name] for name in (*PROCESS, ASSUMED, BETA) if pd.notna(earlier[name])}
        differs = ", ".join(f"{name} {value:g}" for name, value in changes.items()) or "default"
        if differs not in errors:
            process = default.varied(**{name: changes[name] for name in PROCESS if name in changes})
            times = max(1, repetitions * default.negatives // process.negatives)
            contestants = competitors(changes.get(ASSUMED, process.alpha), process.class_probability, changes.get(BETA, 0.0))
            estimates, drawn, _ = simulate_estimates(process, contestants, times)
            errors[differs] = estimates - drawn
        value, error = _measured(earlier["estimator"], earlier["quantity"], errors[differs])
        low, high = earlier["earlier low"], earlier["earlier high"]
        ordered = np.isinf([low, high]).any()
        earlier_error = 0.0 if ordered else error * np.sqrt(errors[differs].shape[1] / EARLIER_ANCHORS)
        reach = 2 * np.hypot(error, earlier_error)
        margin = -reach if ordered else reach  # an ordering must hold by more than the error
        agrees = bool(low - margin <= value <= high + margin)
        keys = {"estimator": earlier["estimator"], "quantity": earlier["quantity"], "setting": differs}
        measured = {"value": value, "standard error": error, "earlier error": earlier_error, "agrees": agrees}
        rows.append(keys | {"earlier low": low, "earlier high": high} | measured)
    return pd.DataFrame(rows)


def _measured(estimator: str, quantity: str, errors: np.ndarray) -> tuple[float, float]:
    """Return a value and its standard error, which is a first-order approximation for ratios."""
    errors_of = dict(zip(ESTIMATORS, errors, strict=True))
    relation, _, reference = quantity.partition(" that of ")
    values = errors_of[estimator] if quantity == "bias" else errors_of[estimator] ** 2
    if reference:
        other = errors_of[reference] ** 2
        ratio = np.nanmean(values) / np.nanmean(other)
        linear = ratio + (values - ratio * other) / np.nanmean(other)
        values = values - other if relation == "MSE minus" else linear
    value, error, _ = measure(values[None]).iloc[0]
    return value, error
