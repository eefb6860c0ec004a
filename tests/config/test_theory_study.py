"""A theory study has the settings of the process and its experiments."""

import pytest

from tests.theory.sweeps import SWEEPS
from trueneg.specs.kinds.theory import SweepSettings
from trueneg.theory.experiments import run

SMALL = SWEEPS | {"anchors": 6, "negatives": 4, "bound_temperatures": [1.0]}
# An experiment whose result depends on each swept setting, and another value of the setting.
USED = {
    "alphas": ("errors_by_parameter", [0.6]),
    "class_probabilities": ("errors_by_parameter", [0.2]),
    "negative_counts": ("errors_by_parameter", [3]),
    "anchor_counts": ("errors_by_parameter", [5]),
    "slides": ("errors_by_parameter", [0.1]),
    "temperatures": ("errors_by_parameter", [0.7]),
    "released_temperatures": ("errors_in_simulation_code", [0.7]),
    "long_negative_counts": ("errors_by_negatives", [5]),
    "positive_counts": ("errors_by_positives", [2]),
    "assumed_alphas": ("errors_by_assumed_alpha", [0.6]),
    "shown_class_probabilities": ("density_ratio", [0.2]),
    "imbalance": ("generalisation_terms", 0.5),
    "bound_temperatures": ("approximation_errors", [0.5]),
    "bound_negative_counts": ("approximation_errors", [8]),
    "bound_positive_counts": ("approximation_errors", [2]),
    "imbalances": ("supervised_bound", [0.5]),
    "lemma_negative_counts": ("supervised_bound", [32]),
    "theorem_negatives": ("generalisation_terms", 8),
    "theorem_positives": ("generalisation_terms", 3),
    "dimension": ("generalisation_terms", 16),
    "training_samples": ("generalisation_terms", 50),
}


def test_every_swept_setting_is_covered():
    assert {*USED} == {*SweepSettings.model_fields}


@pytest.mark.parametrize("setting", USED)
def test_an_experiment_depends_on_each_swept_setting(setting):
    experiment, other = USED[setting]
    assert not run(experiment, SMALL).equals(run(experiment, SMALL | {setting: other}))
