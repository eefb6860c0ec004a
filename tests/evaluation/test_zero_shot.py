"""Areas and accuracies against scikit-learn, with ties and missing labels; the paper's prompts."""

from math import isnan, nan

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.metrics import accuracy_score, roc_auc_score

from trueneg.evaluation.pairs.zero_shot import PROMPTS, zero_shot_metrics
from trueneg.evaluation.roc import area_under_roc

TIED = st.sampled_from([-1.0, 0.0, 0.5])
LABEL = st.sampled_from([0.0, 1.0, nan])


def test_prompts_match_table_2():
    assert {name: (pair["negative"], pair["positive"]) for name, pair in PROMPTS.items()} == {
        "pneumonia": ("No signs of pneumonia", "Findings suggesting pneumonia"),
        "cardiomegaly": ("Heart size normal", "Cardiomegaly"),
        "edema": ("No pulmonary edema", "Pulmonary edema"),
        "effusion": ("No pleural effusions", "Pleural effusions"),
        "pneumothorax": ("No pneumothorax", "Pneumothorax"),
    }


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.one_of(TIED, st.floats(-1, 1)), LABEL), min_size=1, max_size=30))
def test_area_is_the_share_of_ordered_pairs_with_ties_as_one_half_and_matches_scikit_learn(pairs):
    scores, labels = np.array(pairs).T
    known = labels >= 0
    area = area_under_roc(scores, labels)
    if len(set(labels[known])) < 2:
        assert isnan(area)
        return
    wins = [(p > n) + 0.5 * (p == n) for p in scores[labels == 1] for n in scores[labels == 0]]
    assert area == pytest.approx(sum(wins) / len(wins), abs=1e-12)
    assert area == pytest.approx(roc_auc_score(labels[known], scores[known]), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 20), st.integers(1, 3), st.integers(0, 10_000), st.booleans())
def test_metrics_match_scikit_learn_for_each_class(count, classes, seed, tied):
    generator = np.random.default_rng(seed)
    negative, positive = generator.uniform(-1, 1, (2, count + 2, classes)).round(1 if tied else 9)
    labels = generator.choice([0, 1, nan], (count + 2, classes))
    labels[:2] = [[0] * classes, [1] * classes]
    names = ["edema", "effusion", "pneumonia"][:classes]
    metrics = zero_shot_metrics(negative, positive, labels, names)
    for number, name in enumerate(names):
        known = labels[:, number] >= 0
        target, low, high = labels[known, number], negative[known, number], positive[known, number]
        assert metrics["AUC"][name] == pytest.approx(roc_auc_score(target, high - low))
        assert metrics["AUC positive prompt"][name] == pytest.approx(roc_auc_score(target, high))
        # argmax of the two, of equal ones the first: the negative prompt
        assert metrics["ACC"][name] == pytest.approx(
            accuracy_score(target, np.stack([low, high]).argmax(0))
        )
    for values in metrics.values():
        assert values["mean"] == pytest.approx(np.mean([values[name] for name in names]))
        assert list(values) == [*names, "mean"]


def test_the_softmax_over_prompts_ranks_like_their_difference():
    generator = np.random.default_rng(1)
    negative, positive = generator.uniform(-1, 1, (2, 200))
    labels = generator.integers(0, 2, 200)
    for scale in (1.0, 14.0):
        shares = np.exp(scale * positive) / (np.exp(scale * positive) + np.exp(scale * negative))
        assert area_under_roc(shares, labels) == pytest.approx(
            area_under_roc(positive - negative, labels)
        )


def test_nan_scores_raise_an_error():
    with pytest.raises(ValueError, match="1 of 2 scores are NaN"):
        area_under_roc([0.1, nan], [0, 1])
