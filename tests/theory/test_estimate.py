"""Estimates against the paper's equations as loops; errors against what the definitions say."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.losses import by_the_book
from trueneg.losses import Bayesian, Debiased, HardNegative, Oracle, Uncorrected
from trueneg.specs.experiments import BIASED, DCL, DRAWN, ESTIMATORS, EXACT, TRUE
from trueneg.theory import Scores, Setting, estimate_true_negative_mean, simulate_scores
from trueneg.theory.estimate import Competitor, competitors, limiting_bias, measure_errors

SETTING = Setting(anchors=6, negatives=7, positives=3)


def row(frame, **wanted):
    for column, value in wanted.items():
        frame = frame[frame[column] == value]
    assert len(frame) == 1
    return frame.iloc[0]


def true_mean(negatives, is_true):
    """Equation 27."""
    kept = [math.exp(u) for u, true in zip(negatives, is_true, strict=True) if true]
    return sum(kept) / len(kept) if kept else math.nan


def test_estimates_are_those_of_the_equations():
    scores = simulate_scores(SETTING)
    loops = {
        BIASED: lambda p, u: by_the_book.uncorrected(p, u) / 7,  # equation 29
        DCL: lambda p, u: by_the_book.bracket(by_the_book.exp_sum(u), p, 7, 0.1) / 7,  # equation 30
        "BCL, paper": lambda p, u: by_the_book.bayesian(p, u, 0.1, 0.9, 0.0, "paper") / 7,  # equation 28
        "BCL, released": lambda p, u: by_the_book.bayesian(p, u, 0.1, 0.9, 0.5, "released") / 7,
        "BCL, consistent": lambda p, u: by_the_book.bayesian(p, u, 0.1, 0.9, 0.0, "consistent") / 7,
    }
    contestants = competitors(0.9, 0.1)
    assert tuple(contestants) == ESTIMATORS == tuple(loops)
    for name, loop in loops.items():
        expected = torch.stack([loop(p, u) for p, u in zip(scores.positive, scores.negatives, strict=True)])
        actual = estimate_true_negative_mean(scores, contestants[name].estimator)
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=0)


@given(st.integers(0, 10_000), st.floats(0, 0.9), st.floats(-1, 3), st.floats(0, 2))
@settings(deadline=None, max_examples=50)
def test_the_signed_mean_is_the_bracket_and_its_log_where_positive(seed, eta, distance, beta):
    generator = torch.Generator().manual_seed(seed)
    negatives = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    positive = distance + torch.randn(4, 2, generator=generator, dtype=torch.float64)
    for estimator, weight in ((Debiased(eta), 0.0), (HardNegative(beta, eta), beta)):
        actual = estimator.mean(positive, negatives)
        for place, (p, u) in enumerate(zip(positive, negatives, strict=True)):
            importance = torch.exp(weight * u)
            weighted = (importance * u.exp()).sum() / importance.mean()
            expected = by_the_book.bracket(weighted, p, 5, eta) / 5
            torch.testing.assert_close(actual[place], expected, rtol=1e-9, atol=1e-12)
        valid = actual > 1e-9
        torch.testing.assert_close(estimator(positive, negatives)[valid], (5 * actual[valid]).log())


def test_an_estimate_can_be_negative_where_its_log_is_not_a_number():
    scores = Scores(
        torch.tensor([[2.0]]),
        torch.tensor([[-1.0, -1.0]]),
        torch.ones(1, 2, dtype=torch.bool),
        torch.tensor([0.5]),
        torch.ones(1),
    )
    estimate = estimate_true_negative_mean(scores, Debiased(0.5))
    assert float(estimate) == pytest.approx(2 * math.exp(-1) - math.exp(2))
    assert Debiased(0.5)(scores.positive, scores.negatives).isnan()


def test_true_class_probabilities_and_labels_reach_those_that_need_them():
    scores = simulate_scores(SETTING.varied(classes=(0.7, 0.3), anchors=40))
    expected = estimate_true_negative_mean(scores, Debiased(scores.class_probability))
    assert torch.equal(estimate_true_negative_mean(scores, Debiased()), expected)
    oracle = estimate_true_negative_mean(scores, Oracle())
    torch.testing.assert_close(oracle, (scores.negatives.exp() * scores.is_true).mean(1))


def test_only_the_first_positives_are_used_and_more_than_there_are_is_an_error():
    scores = simulate_scores(SETTING)
    one = estimate_true_negative_mean(scores, Debiased(0.1), positives=1)
    torch.testing.assert_close(one, Debiased(0.1).mean(scores.positive[:, 0], scores.negatives))
    with pytest.raises(ValueError, match=r"positives is 4; expected 1 to 3\b.* per anchor"):
        estimate_true_negative_mean(scores, Debiased(0.1), positives=4)


def test_errors_are_what_their_definitions_say():
    setting = SETTING.varied(class_probability=0.6, negatives=3)  # some anchors have no true negative
    frame = measure_errors(setting, {"one": Competitor(Uncorrected())}, repetitions=5)
    scores = simulate_scores(setting.varied(anchors=30))
    references = {
        DRAWN: [true_mean(u.tolist(), true.tolist()) for u, true in zip(scores.negatives, scores.is_true, strict=True)],
        EXACT: scores.exact_mean.tolist(),
    }
    estimates = scores.negatives.exp().mean(1).numpy()
    assert np.isnan(references[DRAWN]).any()
    for reference, values in references.items():
        errors = estimates - np.array(values)
        kept = errors[~np.isnan(errors)]
        for quantity, terms in (("bias", errors), ("mean squared error", errors**2)):
            found = row(frame, reference=reference, quantity=quantity)
            known = terms[~np.isnan(terms)]
            assert found["value"] == pytest.approx(known.mean())
            assert found["standard error"] == pytest.approx(known.std() / math.sqrt(len(kept)))
            of_repetition = [np.nanmean(part) for part in terms.reshape(5, 6)]
            assert found["spread"] == pytest.approx(np.std(of_repetition, ddof=1))
    means = frame[frame["quantity"] == "mean"].set_index("estimator")["value"]
    assert means["one"] == pytest.approx(estimates.mean())
    assert means[TRUE] == pytest.approx(float(scores.exact_mean.mean()))


def test_one_repetition_has_no_spread():
    assert measure_errors(SETTING, competitors(0.9, 0.1))["spread"].isna().all()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_limit_of_the_bias_is_where_simulations_go(name):
    setting = Setting(anchors=600, negatives=8192, positives=200, slide=0.3)
    contestants = competitors(setting.alpha, 0.1)
    found = row(measure_errors(setting, {name: contestants[name]}), reference=EXACT, quantity="bias")
    z = (found["value"] - limiting_bias(setting, name)) / found["standard error"]
    assert abs(z) < 3.3  # level 1e-3


def test_lemma_3_2_holds_for_the_recovered_distribution_alone():
    setting = Setting()
    assert limiting_bias(setting, "BCL, consistent") == pytest.approx(0, abs=1e-9)
    assert limiting_bias(setting, "BCL, released") == pytest.approx(0, abs=1e-9)  # β = ½
    assert limiting_bias(setting, "BCL, paper") == pytest.approx(-0.0194, abs=1e-4)
    assert limiting_bias(setting.varied(alpha=0.5), "BCL, paper") == pytest.approx(0, abs=1e-9)


def test_the_papers_order_holds_in_its_setting():
    frame = measure_errors(Setting(), competitors(0.9, 0.1), repetitions=5)
    found = frame[(frame["reference"] == DRAWN) & (frame["quantity"] == "mean squared error")].set_index("estimator")
    assert found["value"]["BCL, paper"] + 4 * found["standard error"][DCL] < found["value"][DCL]
    assert found["value"][DCL] + 4 * found["standard error"][BIASED] < found["value"][BIASED]


def test_the_released_form_without_hardness_is_the_consistent_one_unnormalised():
    scores = simulate_scores(SETTING)
    released = Bayesian(0.9, 0.5, 0.1, "released").mean(scores.positive, scores.negatives)
    consistent = Bayesian(0.9, 0.0, 0.1, "consistent").mean(scores.positive, scores.negatives)
    ratio = released / consistent
    assert torch.allclose(ratio, ratio[0].expand(6))  # the same mean weight in every row of distinct scores
    assert not torch.allclose(ratio, torch.ones_like(ratio))
