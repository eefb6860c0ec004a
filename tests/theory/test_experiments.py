"""Each experiment runs by name, and its data frame holds what theory or the definitions predict."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.stats import norm

from tests.theory.sweeps import SWEEPS
from trueneg.specs.experiments import BIASED, DCL, DRAWN, ESTIMATORS, EXPERIMENTS
from trueneg.theory.experiments import run, write_experiment

SMALL = SWEEPS | {"anchors": 60, "long_negative_counts": [64, 256]}
REPEATED = (
    "errors_by_parameter",
    "errors_in_simulation_code",
    "errors_by_negatives",
    "errors_by_positives",
    "errors_by_assumed_alpha",
)
OPTIONS = {
    **{name: {"repetitions": 2} for name in (*REPEATED, "approximation_errors")},
    **{
        name: {"density_draws": 4000}
        for name in ("class_conditional_densities", "observation_densities")
    },
}
# Columns with results; the others identify a row.
MEASURED = ("standard error", "spread", "exact")


@pytest.fixture(scope="module")
def frames():
    return {name: run(name, SMALL, **OPTIONS.get(name, {})) for name in EXPERIMENTS}


def where(frame, **wanted):
    for column, value in wanted.items():
        frame = frame[frame[column] == value]
    return frame


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_frames_are_tidy_with_a_standard_error_per_value(frames, name):
    frame = frames[name]
    assert len(frame)
    assert (frame["standard error"] >= 0).all()
    (value,) = [column for column in ("value", "density", "ratio", "weight") if column in frame]
    assert frame[value].notna().all()
    keys = [column for column in frame if column not in {value, *MEASURED}]
    assert not frame.duplicated(keys).any()


def test_results_are_determined_by_the_seed():
    name = "errors_by_assumed_alpha"
    pd.testing.assert_frame_equal(run(name, SMALL), run(name, SMALL))
    assert not run(name, {**SMALL, "seed": 1})["value"].equals(run(name, SMALL)["value"])


@pytest.mark.parametrize("name", ["class_conditional_densities", "observation_densities"])
def test_drawn_densities_agree_with_the_closed_forms(frames, name):
    frame, x = frames[name], "score" if name.startswith("class") else "observation"
    for _, part in frame.groupby(["population", "alpha"]):
        exact = part[part["source"] == "closed form"]
        drawn = part[part["source"] != "closed form"]
        assert trapezoid(exact["density"], exact[x]) == pytest.approx(1, abs=0.04)
        errors = drawn["standard error"].to_numpy()[8:-8]  # a kernel blurs the ends
        differences = (drawn["density"].to_numpy() - exact["density"].to_numpy())[8:-8]
        # empty bins have no standard error, and few draws of a tail a kernel estimate of theirs
        filled = (errors > 0) & (exact["density"].to_numpy()[8:-8] > 0.01)
        assert filled.sum() > 15
        assert np.abs(differences[filled] / errors[filled]).max() < 4.5


def test_the_observations_have_the_densities_of_the_papers_figure(frames):
    """BCL, Fig. 4: order statistics of two draws of N(0, 1), as densities of e^(x/2)."""
    exact = where(frames["observation_densities"], source="closed form")
    assert sorted(exact["alpha"].unique()) == [0.5, 0.52, 0.9, 1.0]
    for (name, alpha), part in exact.groupby(["population", "alpha"]):
        y = part["observation"].to_numpy()
        x = 2 * np.log(y)
        smaller = 2 * norm.pdf(x) * norm.sf(x) * 2 / y
        larger = 2 * norm.pdf(x) * norm.cdf(x) * 2 / y
        nearer, farther = (larger, smaller) if name == "true negatives" else (smaller, larger)
        np.testing.assert_allclose(part["density"], alpha * farther + (1 - alpha) * nearer)


def test_the_density_ratio_follows_from_its_derivation(frames):
    """p⁺/p⁻ = r and x̂ = m·p⁺/p_d with p_d = τ⁻p⁻ + τ⁺p⁺ (equations 8 and 9): x̂ = r/(τ⁻ + τ⁺r),
    never beyond 1/τ⁺.
    """
    frame = frames["density_ratio"]
    attainable = where(frame, branch="attainable")
    eta, ratio = attainable["class_probability"], attainable["ratio"]
    np.testing.assert_allclose(ratio / (1 - eta + eta * ratio), attainable["similarity"])
    assert (frame.loc[frame["branch"] != "attainable", "ratio"] < 0).all()


def test_proposition_3_1_densities_are_normalised_and_not_negative(frames):
    frame = frames["normalisation"]
    np.testing.assert_allclose(where(frame, quantity="integral")["value"], 1, rtol=1e-7)
    assert (where(frame, quantity="smallest density")["value"] >= 0).all()


def test_only_dcl_depends_on_positives_and_sweeps_agree_at_a_shared_setting(frames):
    frame = frames["errors_by_positives"]
    for name, part in where(frame, quantity="mean squared error", reference=DRAWN).groupby(
        "estimator"
    ):
        assert (part["value"].nunique() == 1) == (name != DCL)
    error = {"quantity": "mean squared error", "reference": DRAWN, "estimator": BIASED}
    shared = [("errors_by_parameter", "alpha", 0.9), ("errors_by_parameter", "temperature", 0.5)]
    shared += [(name, "negatives", 64) for name in ("errors_by_parameter", "errors_by_negatives")]
    values = [
        where(frames[name], **error, parameter=key, at=at)["value"].iloc[0]
        for name, key, at in shared
    ]
    assert len(set(values)) == 1


def test_the_sweep_over_negatives_ends_with_the_limiting_bias(frames):
    frame = frames["errors_by_negatives"]
    limits = frame[np.isinf(frame["at"])]
    assert list(limits["estimator"]) == list(ESTIMATORS)
    assert set(limits["quantity"]) == {"bias"}


def test_measured_errors_are_below_both_bounds(frames):
    keys = ["temperature", "negatives", "positives", "objective"]
    wide = frames["approximation_errors"].pivot(index=keys, columns="quantity", values="value")
    assert (wide["|L − L̄|"] <= wide["mean |Δ|"] + 1e-12).all()
    assert (wide["mean |Δ|"] < wide[["Proposition 1", "trivial bound"]].min(axis=1)).all()


def test_lemma_2_holds_on_digits(frames):
    for _, part in frames["supervised_bound"].groupby("imbalance"):
        values = part.set_index("quantity")["value"]
        supervised = values["mean classifier, all classes"]
        assert (
            where(part, quantity="asymptotic debiased loss", promised=True)["value"] >= supervised
        ).all()
        assert values["accuracy of the mean classifier"] > 0.8


def test_theorem_4_is_uninformative(frames):
    frame = frames["generalisation_terms"].set_index(["encoders", "term"])["value"]
    for encoders in ("all functions", "linear maps"):
        assert frame[encoders, "complexity"] > 100 * frame[encoders, "log C (no information)"]


@pytest.mark.parametrize(
    ("settings", "facts"),
    [({"alphs": [0.5], "sed": 3}, "(?s)alphs.*sed"), ({"alpha": 2}, "(?s)alpha.*2")],
)
def test_unknown_and_invalid_settings_are_rejected(settings, facts):
    with pytest.raises(ValueError, match=facts):
        run("density_ratio", settings)


def test_an_experiment_is_written_as_parquet(tmp_path):
    path = tmp_path / "deep" / "density_ratio.parquet"
    write_experiment("trueneg.theory.experiments:run", "density_ratio", {}, path)
    pd.testing.assert_frame_equal(pd.read_parquet(path), run("density_ratio"))


def test_names_of_experiments_are_read_without_torch_or_pandas():
    code = (
        "import sys, trueneg.specs.experiments; print({'torch', 'numpy', 'pandas'} &"
        " set(sys.modules))"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "set()\n"
    )
