"""The process and estimators of the public simulation code of BCL's authors, against plain numpy
written from its description.

Each anchor has a base U(a, b), where a lies at most γ/t² above −1/t² and b at most γ/t² below 1/t²,
independently. A true negative is the lower of two draws with probability α, and a false one the
higher. BCL recovers F from the mixture and divides by the mean weight; DCL is at least e^(−1/t²).
"""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import ks_2samp

from trueneg.specs.experiments import BIASED, DCL, DRAWN
from trueneg.theory import Setting, simulate_scores
from trueneg.theory.estimate import (
    competitors,
    limiting_bias,
    measure_errors,
    simulate_estimates,
)
from trueneg.theory.experiments import run

ALPHA, ETA, POSITIVES, NEGATIVES, ANCHORS = 0.9, 0.1, 10, 64, 6000
CASES = [(temperature, gamma) for temperature in (0.5, 1.0) for gamma in (0.0, 0.1)]
OTHER_POINTS = {
    "class_probabilities": [ETA],
    "negative_counts": [8],
    "anchor_counts": [8],
    "slides": [0.0],
}
OTHER_POINTS |= {"released_temperatures": [1.0]}
NAMES = ("BCL, consistent", DCL, BIASED)


class Draws(NamedTuple):
    """Scores of A anchors, before division by t."""

    positives: np.ndarray
    negatives: np.ndarray
    is_true: np.ndarray


def drawn(temperature, gamma, generator):
    low = -1 / temperature**2 + gamma / temperature**2 * generator.random((ANCHORS, 1))
    high = 1 / temperature**2 - gamma / temperature**2 * generator.random((ANCHORS, 1))

    def scores(count, is_true):
        pair = low[..., None] + (high - low)[..., None] * generator.random((ANCHORS, count, 2))
        lower = is_true == (generator.random((ANCHORS, count)) < ALPHA)
        return np.where(lower, pair.min(-1), pair.max(-1))

    is_true = generator.random((ANCHORS, NEGATIVES)) >= ETA
    return Draws(
        scores(POSITIVES, np.zeros((ANCHORS, POSITIVES), bool)), scores(NEGATIVES, is_true), is_true
    )


def estimates(draws, temperature):
    """(3, A) estimates in the order of NAMES, and (A,) means of the true negatives."""
    observed = np.exp(draws.negatives / temperature)
    rank = (draws.negatives[:, None, :] <= draws.negatives[:, :, None]).mean(-1)
    below = np.linspace(0, 1, 200_001)  # F of the base
    true, false = (
        2 * ALPHA * below + (1 - 2 * ALPHA) * below**2,
        2 * (1 - ALPHA) * below - (1 - 2 * ALPHA) * below**2,
    )
    base = np.interp(rank, (1 - ETA) * true + ETA * false, below)
    of_true, of_false = (
        ALPHA * (1 - base) + (1 - ALPHA) * base,
        (1 - ALPHA) * (1 - base) + ALPHA * base,
    )
    weight = of_true / ((1 - ETA) * of_true + ETA * of_false)
    bcl = (weight * observed).mean(1) / weight.mean(1)
    biased = observed.mean(1)
    dcl = (biased - ETA * np.exp(draws.positives / temperature).mean(1)) / (1 - ETA)
    dcl = np.maximum(dcl, np.exp(-1 / temperature**2))
    return np.stack([bcl, dcl, biased]), np.nanmean(
        np.where(draws.is_true, observed, np.nan), axis=1
    )


def released(temperature, gamma, **changes):
    return Setting(
        base="released",
        temperature=temperature,
        slide=gamma,
        anchors=ANCHORS,
        negatives=NEGATIVES,
        **changes,
    )


@pytest.mark.parametrize(("temperature", "gamma"), [*CASES, (0.5, 1.0)])
def test_scores_follow_the_authors_process(temperature, gamma):
    scores = simulate_scores(released(temperature, gamma, seed=8))
    reference = drawn(temperature, gamma, np.random.default_rng(4))
    negatives, is_true = (scores.negatives * temperature).numpy(), scores.is_true.numpy()
    # One score per anchor, because scores of one anchor are dependent; its lowest and highest
    # depend on the ends a and b.
    pairs = [
        (negatives.min(1), reference.negatives.min(1)),
        (negatives.max(1), reference.negatives.max(1)),
    ]
    pairs += [((scores.positive * temperature).numpy()[:, 0], reference.positives[:, 0])]
    pairs += [(negatives[is_true[:, 0], 0], reference.negatives[reference.is_true[:, 0], 0])]
    pairs += [(np.ptp(negatives, axis=1), np.ptp(reference.negatives, axis=1))]
    for values, expected in pairs:
        assert ks_2samp(values, expected).pvalue > 1e-3


@pytest.mark.parametrize(("temperature", "gamma"), CASES)
def test_estimates_on_the_same_draws_are_those_of_the_authors(temperature, gamma):
    scores = simulate_scores(released(temperature, gamma))
    draws = Draws(
        *(
            part.numpy()
            for part in (
                scores.positive * temperature,
                scores.negatives * temperature,
                scores.is_true,
            )
        )
    )
    expected, true_mean = estimates(draws, temperature)
    contestants = competitors(ALPHA, ETA)
    contestants[DCL] = contestants[DCL]._replace(floor=np.exp(-1 / temperature**2))
    values, drawn_mean, _ = simulate_estimates(
        released(temperature, gamma), {name: contestants[name] for name in NAMES}
    )
    np.testing.assert_allclose(values, expected, rtol=1e-7)
    np.testing.assert_allclose(drawn_mean, true_mean, rtol=1e-12)
    # the bound of DCL is in use
    assert (values[1] == np.exp(-1 / temperature**2)).any() == (temperature == 0.5)


@pytest.mark.parametrize(("temperature", "gamma"), CASES)
def test_the_authors_order_of_errors_holds_in_their_process(temperature, gamma):
    values, true_mean = estimates(drawn(temperature, gamma, np.random.default_rng(1)), temperature)
    squared = (values - true_mean) ** 2
    settings = {
        "temperature": temperature,
        "slide": gamma,
        "anchors": ANCHORS,
        "negatives": NEGATIVES,
        "alphas": [ALPHA],
    }
    frame = run("errors_in_simulation_code", settings | OTHER_POINTS, repetitions=1)
    frame = frame[(frame["parameter"] == "alpha") & frame["reference"].str.startswith("drawn")]
    errors = (
        frame[frame["quantity"] == "mean squared error"].set_index("estimator").loc[list(NAMES)]
    )
    for first, second in ((0, 1), (1, 2)):
        assert errors["value"].iloc[first] < errors["value"].iloc[second]
        difference = squared[second] - squared[first]
        assert difference.mean() > 2 * difference.std() / ANCHORS**0.5
    standard_error = squared.std(1) / ANCHORS**0.5
    z = (errors["value"] - squared.mean(1)) / np.hypot(errors["standard error"], standard_error)
    assert abs(z).max() < 3.5


def test_in_the_setting_of_the_authors_code_every_form_has_a_smaller_error_than_dcl():
    """M = N = 100, γ = 0, τ⁺ = 0.1, t = 0.5, K = 10; every seventh of its 50 values of α."""
    for alpha in np.linspace(0.5, 1, 50)[::7].tolist():
        setting = Setting(
            base="released",
            alpha=alpha,
            class_probability=ETA,
            slide=0.0,
            temperature=0.5,
            anchors=100,
            negatives=100,
            positives=POSITIVES,
        )
        contestants = competitors(alpha, ETA)
        contestants[DCL] = contestants[DCL]._replace(floor=np.exp(-4))
        table = measure_errors(setting, contestants, 1).set_index(["reference", "quantity"])
        errors = table.loc[(DRAWN, "mean squared error")].set_index("estimator")["value"]
        assert errors.drop([DCL, BIASED]).max() < errors[DCL], alpha
        assert (errors[DCL] < errors[BIASED]) == (alpha > 0.85), alpha


def test_the_exact_mean_is_that_of_many_true_negatives():
    scores = simulate_scores(
        Setting(
            base="released",
            slide=1,
            temperature=0.7,
            anchors=4,
            negatives=200_000,
            class_probability=0,
        )
    )
    error = scores.negatives.exp().std(1) / 200_000**0.5
    assert (((scores.true_mean - scores.exact_mean) / error).abs() < 3.5).all()
    assert len(torch.unique(scores.exact_mean)) == 4


def test_the_limiting_bias_is_refused_where_intervals_differ():
    with pytest.raises(ValueError, match=r"released.*uniform or normal"):
        limiting_bias(Setting(base="released"), DCL)
