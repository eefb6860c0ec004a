"""Estimates against the paper's equations as loops; errors against their definitions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book
from trueneg.losses import Anchors, Bayesian, Debiased, HardNegative, Oracle, Uncorrected
from trueneg.specs.experiments import BIASED, DCL, DRAWN, ESTIMATORS, EXACT, TRUE
from trueneg.theory import Scores, Setting, estimate_true_negative_mean, simulate_scores
from trueneg.theory.estimate import Competitor, competitors, limiting_bias, measure_errors

SETTING = Setting(anchors=6, negatives=7, positives=3)


def row(frame, reference, quantity):
    (match,) = frame[(frame["reference"] == reference) & (frame["quantity"] == quantity)].to_dict(
        "records"
    )
    return match


def true_mean(negatives, is_true):
    """Equation 27."""
    kept = [math.exp(u) for u, true in zip(negatives, is_true, strict=True) if true]
    return sum(kept) / len(kept) if kept else math.nan


def test_estimates_follow_the_equations():
    scores = simulate_scores(SETTING)
    masses = {
        BIASED: by_the_book.uncorrected,  # equation 29
        DCL: lambda p, u: by_the_book.bracket(by_the_book.exp_sum(u), p, 7, 0.1),  # equation 30
        # equation 28
        "BCL, paper": lambda p, u: by_the_book.bayesian(p, u, 0.1, 0.9, 0.0, "paper"),
        "BCL, released": lambda p, u: by_the_book.bayesian(p, u, 0.1, 0.9, 0.5, "released"),
        "BCL, consistent": lambda p, u: by_the_book.bayesian(p, u, 0.1, 0.9, 0.0, "consistent"),
    }
    contestants = competitors(0.9, 0.1)
    assert tuple(contestants) == ESTIMATORS == tuple(masses)
    for name, mass in masses.items():
        expected = torch.stack(
            [mass(p, u) / 7 for p, u in zip(scores.positive, scores.negatives, strict=True)]
        )
        actual = estimate_true_negative_mean(scores, contestants[name].estimator)
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=0)


@given(st.integers(0, 10_000), st.floats(0, 0.9), st.floats(-1, 3), st.floats(0, 2))
@settings(deadline=None, max_examples=50)
def test_the_signed_mean_is_the_bracket_of_the_equation_and_the_estimator_its_log(
    seed, eta, distance, beta
):
    generator = torch.Generator().manual_seed(seed)
    negatives = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    positive = distance + torch.randn(4, 2, generator=generator, dtype=torch.float64)
    for estimator, weight in ((Debiased(eta), 0.0), (HardNegative(beta, eta), beta)):
        actual = estimator.mean(Anchors(positive, negatives))
        for mean, p, u in zip(actual, positive, negatives, strict=True):
            importance = torch.exp(weight * u)
            weighted = (importance * u.exp()).sum() / importance.mean()
            torch.testing.assert_close(
                mean, by_the_book.bracket(weighted, p, 5, eta) / 5, rtol=1e-9, atol=1e-12
            )
        valid = actual > 1e-9
        torch.testing.assert_close(estimator(positive, negatives)[valid], (5 * actual[valid]).log())


def test_a_negative_estimate_has_no_log():
    is_true = torch.ones(1, 2, dtype=torch.bool)
    scores = Scores(
        torch.tensor([[2.0]]),
        torch.tensor([[-1.0, -1.0]]),
        is_true,
        torch.tensor([0.5]),
        torch.ones(1),
    )
    estimate = estimate_true_negative_mean(scores, Debiased(0.5))
    assert float(estimate) == pytest.approx(2 * math.exp(-1) - math.exp(2))
    assert Debiased(0.5)(scores.positive, scores.negatives).isnan()


def test_estimators_receive_the_true_class_probabilities_or_labels_that_they_need():
    scores = simulate_scores(SETTING.varied(classes=(0.7, 0.3), anchors=40))
    expected = estimate_true_negative_mean(scores, Debiased(scores.class_probability))
    assert torch.equal(estimate_true_negative_mean(scores, Debiased()), expected)
    oracle = estimate_true_negative_mean(scores, Oracle())
    torch.testing.assert_close(oracle, (scores.negatives.exp() * scores.is_true).mean(1))


def test_only_the_first_positives_are_used_and_too_many_are_an_error():
    scores = simulate_scores(SETTING)
    estimate = estimate_true_negative_mean(scores, Debiased(0.1), positives=1)
    torch.testing.assert_close(
        estimate, Debiased(0.1).mean(Anchors(scores.positive[:, 0], scores.negatives))
    )
    with pytest.raises(ValueError, match=r"positives is 4; expected 1 to 3\b.* per anchor"):
        estimate_true_negative_mean(scores, Debiased(0.1), positives=4)


def test_errors_follow_their_definitions():
    # some anchors have no true negative
    setting = SETTING.varied(class_probability=0.6, negatives=3)
    frame = measure_errors(setting, {"CL": Competitor(Uncorrected())}, repetitions=5)
    scores = simulate_scores(setting.varied(anchors=30))
    references = {
        DRAWN: [
            true_mean(u.tolist(), true.tolist())
            for u, true in zip(scores.negatives, scores.is_true, strict=True)
        ],
        EXACT: scores.exact_mean.tolist(),
    }
    estimates = scores.negatives.exp().mean(1).numpy()
    assert np.isnan(references[DRAWN]).any()
    for reference, values in references.items():
        errors = estimates - np.array(values)
        for quantity, terms in (("bias", errors), ("mean squared error", errors**2)):
            measured, defined = row(frame, reference, quantity), terms[~np.isnan(terms)]
            assert measured["value"] == pytest.approx(defined.mean())
            assert measured["standard error"] == pytest.approx(
                defined.std() / math.sqrt(len(defined))
            )
            of_repetition = [np.nanmean(part) for part in terms.reshape(5, 6)]
            assert measured["spread"] == pytest.approx(np.std(of_repetition, ddof=1))
    means = frame[frame["quantity"] == "mean"].set_index("estimator")["value"]
    assert means["CL"] == pytest.approx(estimates.mean())
    assert means[TRUE] == pytest.approx(float(scores.exact_mean.mean()))


def test_a_single_repetition_has_no_spread():
    assert measure_errors(SETTING, competitors(0.9, 0.1))["spread"].isna().all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_simulated_biases_approach_the_computed_limit(name):
    setting = Setting(anchors=600, negatives=8192, positives=200, slide=0.3)
    bias = row(
        measure_errors(setting, {name: competitors(setting.alpha, 0.1)[name]}), EXACT, "bias"
    )
    z = (bias["value"] - limiting_bias(setting, name)) / bias["standard error"]
    assert abs(z) < 3.3  # level 1e-3


def test_lemma_3_2_holds_only_for_the_recovered_distribution():
    setting = Setting()
    assert limiting_bias(setting, "BCL, consistent") == pytest.approx(0, abs=1e-9)
    assert limiting_bias(setting, "BCL, released") == pytest.approx(0, abs=1e-9)  # β = ½
    assert limiting_bias(setting, "BCL, paper") == pytest.approx(-0.0194, abs=1e-4)
    assert limiting_bias(setting.varied(alpha=0.5), "BCL, paper") == pytest.approx(0, abs=1e-9)


def test_the_order_of_the_papers_estimators_holds_in_its_setting():
    frame = measure_errors(Setting(), competitors(0.9, 0.1), repetitions=5)
    errors = frame[
        (frame["reference"] == DRAWN) & (frame["quantity"] == "mean squared error")
    ].set_index("estimator")
    for better, worse in (("BCL, paper", DCL), (DCL, BIASED)):
        assert (
            errors["value"][better] + 4 * errors["standard error"][worse] < errors["value"][worse]
        )


def test_the_released_form_without_hardness_is_the_unnormalised_consistent_form():
    scores = simulate_scores(SETTING)
    anchors = Anchors(scores.positive, scores.negatives)
    released = Bayesian(0.9, 0.5, 0.1, "released").mean(anchors)
    consistent = Bayesian(0.9, 0.0, 0.1, "consistent").mean(anchors)
    ratio = released / consistent
    # the same mean weight in every row of distinct scores
    assert torch.allclose(ratio, ratio[0].expand(6))
    assert not torch.allclose(ratio, torch.ones_like(ratio))
