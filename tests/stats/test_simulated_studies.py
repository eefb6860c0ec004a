"""Simulated studies with known effects: how often their outcomes are wrong, and how often effects
are found.

Effects and standard deviations are in points; all rates are bounded by the nominal level plus three
Monte-Carlo standard errors.
"""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from trueneg.report.tables.building import comparisons
from trueneg.stats.candidates import cross_fitted
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import to_table

STUDIES, MARGIN = 1000, 0.4
MEASURED = Measurement("knn", "accuracy", "all")


def simulated(effects, seeds, deviation, studies=STUDIES):
    """Compare with CL in simulated studies; `deviation` is that of paired differences; each seed
    has a level of its own.
    """
    generator, names = np.random.default_rng(0), ["CL", *effects]
    shared = generator.normal(70, 2, (studies, 1, seeds))
    own = generator.normal(0, deviation / 2**0.5, (studies, len(names), seeds))
    values = shared + own + np.array([0.0, *effects.values()])[None, :, None]
    study, objective, seed = (places.ravel() for places in np.indices(values.shape))
    rows = {
        "study": study.astype(str),
        "dataset": "d",
        "split": "test",
        "variant": "{}",
        **MEASURED._asdict(),
    }
    rows |= {
        "objective": np.array(names)[objective],
        "seed": seed,
        "run": "r",
        "value": values.ravel(),
    }
    return comparisons(to_table(rows), "CL", [MEASURED], {MEASURED: MARGIN})


def share(found, expected):
    """The share of studies with a claim, and three Monte-Carlo standard errors around the expected
    one.
    """
    return found.mean(), 3 * (expected * (1 - expected) / len(found)) ** 0.5


@pytest.mark.parametrize("seeds", [3, 8])
def test_a_method_without_an_effect_is_called_better_in_at_most_2_5_percent_of_studies(seeds):
    found = simulated({"none": 0.0}, seeds, 0.8)
    for ranked in ("better", "worse"):
        rate, error = share(found["outcome"].str.startswith(ranked), 0.025)
        assert rate <= 0.025 + error


@pytest.mark.parametrize("real", [0.0, 1.5])
def test_any_false_claim_among_several_methods_occurs_in_at_most_5_percent_of_studies(real):
    found = simulated({"real": real, "a": 0.0, "b": 0.0}, 6, 0.5, STUDIES // 2)
    false = found[(found["objective"] != "real") | (real == 0)]
    claimed = false["outcome"].str.startswith(("better", "worse"))
    rate, error = share(claimed.groupby(false["study"]).any(), 0.05)
    assert rate <= 0.05 + error


def test_the_best_of_equal_methods_gains_nothing_if_it_is_cross_fitted():
    generator, seeds = np.random.default_rng(1), 7
    names = ["CL", *"abcdefgh"]
    gains = {"largest": [], "cross-fitted": []}
    for _ in range(120):
        values = generator.normal(0, 1, (len(names), seeds))
        objective, seed = (places.ravel() for places in np.indices(values.shape))
        place = {"study": "s", "dataset": "d", "split": "test", "variant": "{}"}
        rows = place | MEASURED._asdict() | {"objective": np.array(names)[objective]}
        table = to_table(rows | {"seed": seed, "run": "r", "value": values.ravel()})
        best = cross_fitted(table, names[1:])
        assert sorted(best["seed"]) == list(range(seeds))
        gains["cross-fitted"].append(best["value"].mean() - values[0].mean())
        gains["largest"].append(values[1:].mean(1).max() - values[0].mean())
    mean, error = (of(gains["cross-fitted"]) for of in (np.mean, stats.sem))
    assert abs(mean) < 3 * error
    assert np.mean(gains["largest"]) > 5 * error


def test_cross_fitting_measures_a_method_that_is_best_in_both_halves_on_all_seeds():
    values = {"CL": [0, 0, 0, 0], "a": [1, 2, 1, 2], "b": [3, 5, 3, 5]}
    rows = [
        {"study": "s", "dataset": "d", "split": "test", "variant": "{}", **MEASURED._asdict()}
        | {"objective": name, "seed": seed, "run": "r", "value": value}
        for name, of_seeds in values.items()
        for seed, value in enumerate(of_seeds)
    ]
    best = cross_fitted(to_table(rows), ["a", "b"])
    assert set(best["chosen"]) == {"b"}
    assert best.sort_values("seed")["value"].tolist() == values["b"]
    one = to_table(rows).query("seed == 0")
    assert cross_fitted(one, ["a", "b"]).empty


@pytest.mark.parametrize(("effect", "seeds", "deviation"), [(MARGIN, 6, 0.3), (-MARGIN, 12, 0.5)])
def test_equivalence_is_claimed_in_at_most_5_percent_of_studies_with_an_effect_at_the_margin(
    effect, seeds, deviation
):
    found = simulated({"DCL": effect}, seeds, deviation)
    claimed = found["outcome"].eq("equivalent") | found["outcome"].str.endswith("margin")
    rate, error = share(claimed, 0.05)
    assert rate <= 0.05 + error


@pytest.mark.parametrize("seeds", [12, 24])
@pytest.mark.parametrize("deviation", [0.5, 0.8])
def test_effects_are_found_with_the_theoretical_power(seeds, deviation, record_property):
    real, none = (
        simulated({"DCL": effect}, seeds, deviation, 300)["outcome"] for effect in (0.5, 0.0)
    )
    expected = TTestPower().power(0.5 / deviation, seeds, 0.05)
    better, error = share(real.str.startswith("better"), expected)
    equivalent = none.eq("equivalent").mean()
    text = f"better at +0.5: {better:.2f}; equivalent at 0, margin {MARGIN}: {equivalent:.2f}"
    record_property(f"power with {seeds} seeds, standard deviation {deviation}", text)
    print(f"power with {seeds} seeds, standard deviation of differences {deviation}: {text}")
    assert better == pytest.approx(expected, abs=max(error, 0.01))
