"""The stochastic process: draws against closed forms and against the paper's algorithms as
loops.
"""

import math
import tracemalloc

import numpy as np
import pytest
import torch
from scipy.stats import binomtest, chisquare, ks_2samp, kstest

from trueneg.theory import Setting, simulate_blocks, simulate_scores

LEVEL = 1e-3  # significance level of the tests of distributions; the seeds are fixed
ONE_ANCHOR = Setting(anchors=1, negatives=20_000, positives=20_000, slide=0.0)


def accept_reject(setting, is_true, generator):
    """Algorithms 2 and 3, draw by draw, for the unshifted uniform base."""
    alpha = setting.alpha
    while True:
        score = generator.uniform(-0.5, 0.5)
        below = score + 0.5
        density = (
            alpha + (1 - 2 * alpha) * below if is_true else 1 - alpha + (2 * alpha - 1) * below
        )
        if generator.random() <= density / alpha:
            return score / setting.temperature


@pytest.mark.parametrize("base", ["uniform", "normal"])
@pytest.mark.parametrize("alpha", [0.5, 0.9, 1.0])
def test_scores_follow_the_closed_form_distributions(base, alpha):
    setting = ONE_ANCHOR.varied(alpha=alpha, base=base, class_probability=0.3)
    scores = simulate_scores(setting)
    negatives = scores.negatives * setting.temperature
    drawn = [
        (0.0, negatives[scores.is_true]),
        (1.0, negatives[~scores.is_true]),
        (0.3, negatives[0]),
    ]
    for false_share, values in [*drawn, (1.0, scores.positive[0] * setting.temperature)]:
        assert kstest(values.numpy(), setting.population(false_share).distribution).pvalue > LEVEL


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_scores_follow_the_distribution_of_the_papers_rejection_loops(share):
    setting = ONE_ANCHOR.varied(negatives=5000)
    generator = np.random.default_rng(5)
    loops = [accept_reject(setting, share == 0, generator) for _ in range(5000)]
    scores = simulate_scores(setting)
    drawn = scores.negatives[scores.is_true] if share == 0 else scores.positive[0]
    assert ks_2samp(drawn.numpy(), loops).pvalue > LEVEL


@pytest.mark.parametrize("base", ["uniform", "normal", "released"])
def test_sample_means_agree_with_the_exact_mean(base):
    setting = ONE_ANCHOR.varied(base=base, temperature=1.0, slide=0.4)
    scores = simulate_scores(setting)
    values = scores.negatives[scores.is_true].exp()
    z = (values.mean() - scores.exact_mean[0]) / (values.std() / math.sqrt(len(values)))
    assert abs(z) < 3.3  # level 1e-3
    assert scores.true_mean[0] == pytest.approx(float(values.mean()))


def test_the_share_of_false_negatives_is_the_class_probability():
    is_true = simulate_scores(ONE_ANCHOR.varied(class_probability=0.15)).is_true
    assert binomtest(int((~is_true).sum()), is_true.numel(), 0.15).pvalue > LEVEL


def test_classes_of_anchors_follow_their_probabilities():
    rho = (0.5, 0.3, 0.2)
    eta = simulate_scores(Setting(classes=rho, anchors=5000, negatives=4)).class_probability.numpy()
    counts = [int((eta == value).sum()) for value in rho]
    assert sum(counts) == 5000
    assert chisquare(counts, [5000 * value for value in rho]).pvalue > LEVEL


def test_shifts_are_uniform_within_the_slide():
    setting = Setting(anchors=3000, slide=0.2)
    unshifted = setting.population(0.0).mean_exponential(setting.temperature)
    shift = setting.temperature * (simulate_scores(setting).exact_mean / float(unshifted)).log()
    assert kstest(shift.numpy(), "uniform", args=(-0.2, 0.4)).pvalue > LEVEL


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.2, 2.0])
def test_scores_reach_but_never_exceed_their_bounds(temperature):
    setting = Setting(temperature=temperature, slide=1.0, anchors=500)
    limit = min(1.5, 1 / temperature**2)
    score = simulate_scores(setting).negatives * temperature
    assert score.abs().max() <= limit
    assert score.abs().max() > 0.9 * limit


@pytest.mark.parametrize("base", ["uniform", "released"])
def test_draws_do_not_depend_on_the_block_size(base):
    setting = Setting(anchors=37, negatives=5, positives=3, classes=(0.6, 0.4), base=base)
    whole = simulate_scores(setting)
    for draws in (1, 50, 10_000):
        blocks = list(simulate_blocks(setting, draws_per_block=draws))
        for name in ("positive", "negatives", "is_true", "class_probability", "exact_mean"):
            assert torch.equal(
                torch.cat([getattr(block, name) for block in blocks]), getattr(whole, name)
            )
    assert len(blocks) == 1


def test_each_kind_of_draw_has_its_own_generator():
    few, many = (simulate_scores(Setting(anchors=9, positives=count)) for count in (1, 50))
    assert torch.equal(few.negatives, many.negatives)
    other = simulate_scores(Setting(anchors=9, seed=1))
    assert not torch.equal(few.negatives, other.negatives)


def test_memory_does_not_grow_with_the_number_of_anchors():
    peaks = []
    for anchors in (20_000, 80_000):
        tracemalloc.start()
        for _ in simulate_blocks(Setting(anchors=anchors), draws_per_block=2**18):
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] < 60e6


@pytest.mark.parametrize(
    ("wrong", "facts"),
    [
        ({"alpha": 0.4}, "alpha.*0.5.*0.4"),
        ({"alpha": math.nan}, "alpha.*nan"),
        ({"class_probability": 1.0}, "class_probability.*less than 1"),
        ({"classes": (0.5, 0.4)}, "classes.*0.9"),
        ({"slide": 1.5}, "slide.*1.5"),
        ({"temperature": 0.0}, "temperature.*0.0"),
        ({"negatives": 0}, "negatives.*0"),
        ({"base": "beta"}, "base.*uniform.*normal.*released.*beta"),
        ({"base": "released", "temperature": 0.1}, "temperature is 0.1.*released.*at least 0.15"),
    ],
)
def test_errors_name_the_field_and_the_value_out_of_range(wrong, facts):
    with pytest.raises(ValueError, match=f"(?s){facts}"):
        Setting(**wrong)


def test_class_probabilities_may_be_a_list_with_rounding_errors():
    assert Setting(classes=[0.6, 0.4]) == Setting(classes=(0.6, 0.4))
    assert simulate_scores(
        Setting(anchors=2, classes=[1 / 3, 1 / 3, 0.3333335])
    ).positive.shape == (2, 10)
