"""Heads match a plain loop and scikit-learn; subsets are stratified and nested."""

import doctest
from math import nan

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from trueneg.evaluation.images.linear_probe import label_subset
from trueneg.evaluation.linear_heads import known_binary_cross_entropy, train_linear_heads
from trueneg.evaluation.pairs import linear_probe as multilabel_probe
from trueneg.evaluation.pairs.linear_probe import linear_evaluation, multilabel_subset
from trueneg.randomness import seed_for


def train_alone(features, labels, seed, epochs, batch_size, learning_rate, weight_decay):
    """The protocol as anyone would write it for one head: the mean loss over the labels that are known."""
    torch.manual_seed(seed)
    head = torch.nn.Linear(features.shape[1], labels.shape[1], dtype=features.dtype)
    optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate, weight_decay=weight_decay)
    for _ in range(epochs):
        for batch in torch.randperm(len(features)).split(batch_size):
            optimizer.zero_grad()
            known = ~labels[batch].isnan()
            losses = torch.nn.functional.binary_cross_entropy_with_logits(
                head(features[batch])[known], labels[batch][known], reduction="none"
            )
            (losses.sum() / max(1, len(losses))).backward()
            optimizer.step()
    return head


def random_head(count, dimensions, classes, seed, unknown=0.2):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, dimensions, generator=generator, dtype=torch.float64)
    labels = torch.randint(2, (count, classes), generator=generator).double()
    labels[torch.rand(count, classes, generator=generator) < unknown] = nan
    return features, labels


@settings(deadline=None, max_examples=25)
@given(
    heads=st.integers(1, 4),
    count=st.integers(1, 20),
    dimensions=st.integers(1, 6),
    classes=st.integers(1, 4),
    batch_size=st.integers(1, 12),
    weight_decay=st.sampled_from([0.0, 1e-6, 0.1]),
    unknown=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 2**63 - 5),
)
def test_heads_trained_together_match_heads_trained_separately(
    heads, count, dimensions, classes, batch_size, weight_decay, unknown, seed
):
    seeds = [seed + index for index in range(heads)]
    heads = [random_head(count, dimensions, classes, index, unknown) for index in range(heads)]
    protocol = {"epochs": 3, "batch_size": batch_size, "learning_rate": 1e-2, "weight_decay": weight_decay}
    loss = known_binary_cross_entropy
    together = train_linear_heads(*zip(*heads, strict=True), classes, loss, **protocol, seeds=seeds)
    for index, (features, labels) in enumerate(heads):
        alone = train_alone(features, labels, seeds[index], **protocol)
        torch.testing.assert_close(together.weights[index], alone.weight.detach().T, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(together.bias[index], alone.bias.detach(), rtol=1e-6, atol=1e-9)
        own = [features for features, _ in heads]
        torch.testing.assert_close(together.logits(own)[index], alone(own[index]).detach(), rtol=1e-6, atol=1e-8)


@pytest.fixture(scope="module")
def findings():
    """Three correlated findings, the last one rare, that features show linearly but noisily."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((3000, 12))
    logits = features @ generator.standard_normal((12, 3)) * 0.7 + [0.0, -1.0, -3.0] + 0.8 * features[:, :1]
    labels = (generator.random((3000, 3)) < 1 / (1 + np.exp(-logits))).astype(float)
    return features, labels


def test_converged_heads_match_logistic_regression_per_label(findings):
    features, labels = findings
    # The loss is a mean over samples AND classes, scikit-learn's a sum over samples; and Adam's penalty is on the bias too.
    penalty = 1e-3
    with_constant = np.column_stack([features, np.ones(len(features))])
    heads = train_linear_heads(
        [torch.tensor(features)], [torch.tensor(labels)], 3, known_binary_cross_entropy, epochs=400, batch_size=3000,
        learning_rate=0.05,        weight_decay=penalty, seeds=[0],
    )  # fmt: skip
    for label in range(3):
        reference = LogisticRegression(C=1 / (penalty * labels.size), fit_intercept=False, tol=1e-10, max_iter=2000)
        expected = reference.fit(with_constant, labels[:, label]).coef_[0]
        np.testing.assert_allclose([*heads.weights[0, :, label], heads.bias[0, label]], expected, atol=0.001)


def test_linear_evaluation_matches_scikit_learn_and_improves_with_more_labels(findings):
    features, labels = findings
    names = ["effusion", "edema", "pneumothorax"]
    train, test = slice(0, 2000), slice(2000, None)
    options = {"epochs": 300, "batch_size": 512, "learning_rate": 0.01, "weight_decay": 1e-6}
    parts = [(torch.tensor(features[part], dtype=torch.float32), labels[part]) for part in (train, test)]
    results = linear_evaluation(*parts, names, 0, fractions=[0.01, 0.1, 1.0], **options)
    assert list(results) == [0.01, 0.1, 1.0]
    for label, name in enumerate(names):
        reference = LogisticRegression(C=1e4, max_iter=2000).fit(features[train], labels[train, label])
        expected = roc_auc_score(labels[test, label], reference.decision_function(features[test]))
        assert results[1.0][name] == pytest.approx(expected, abs=0.01)
    assert results[1.0]["mean"] == pytest.approx(np.mean([results[1.0][name] for name in names]))
    assert results[0.01]["mean"] < results[0.1]["mean"] < results[1.0]["mean"]
    assert results[0.01]["mean"] > 0.6


def test_linear_evaluation_trains_on_the_subset_and_ignores_unknown_labels(findings):
    features, labels = (part[:300].copy() for part in findings)
    labels[::7, 0] = labels[::5, 1] = nan
    features = torch.tensor(features)
    options = {"epochs": 5, "batch_size": 64, "learning_rate": 1e-2, "weight_decay": 1e-6}
    results = linear_evaluation((features, labels), (features, labels), ["a", "b", "c"], 3, fractions=[0.2], **options)
    subset = multilabel_subset(labels, 0.2, seed=3)
    alone = train_alone(features[subset], torch.tensor(labels)[subset], seed_for(3, "linear probe"), **options)
    scores = alone(features).detach().numpy()
    for label, name in enumerate("abc"):
        seen = labels[:, label] >= 0
        assert results[0.2][name] == pytest.approx(roc_auc_score(labels[seen, label], scores[seen, label]))


def test_nan_features_raise_an_error(findings):
    features, labels = (part[:50] for part in findings)
    diverged = torch.full(features.shape, nan)
    options = {"epochs": 1, "batch_size": 50, "learning_rate": 1e-2, "weight_decay": 0.0}
    with pytest.raises(ValueError, match="scores are NaN"):
        linear_evaluation((diverged, labels), (diverged, labels), ["a", "b", "c"], 0, fractions=[1.0], **options)


LABELS = arrays(np.float64, st.tuples(st.integers(1, 60), st.integers(1, 4)), elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, nan]))


@settings(deadline=None, max_examples=80)
@given(LABELS, st.floats(1e-4, 1), st.floats(1e-4, 1), st.integers(0, 1000))
def test_subsets_are_nested_and_contain_both_values_of_every_label(labels, one, other, seed):
    small, large = (multilabel_subset(labels, fraction, seed) for fraction in sorted([one, other]))
    assert set(small) <= set(large)
    for subset, fraction in zip((small, large), sorted([one, other]), strict=True):
        assert np.array_equal(subset, np.unique(subset))
        wanted = max(1, round(fraction * len(labels)))
        assert wanted <= len(subset) <= wanted + 2 * labels.shape[1]
        for own in labels.T:
            for value in (0, 1):
                assert (own[subset] == value).any() == (own == value).any()
    assert np.array_equal(small, multilabel_subset(labels, min(one, other), seed))
    assert np.array_equal(multilabel_subset(labels, 1, seed), np.arange(len(labels)))


def test_stratified_label_shares_are_closer_than_random_ones():
    """Ten labels of frequency 2 to 40 %, correlated: the share of each among 5 % of 4,000 images."""
    generator = np.random.default_rng(0)
    common = generator.standard_normal((4000, 1))
    thresholds = np.quantile(common, 1 - np.geomspace(0.02, 0.4, 10))
    labels = (0.6 * common + 0.8 * generator.standard_normal((4000, 10)) > thresholds).astype(float)
    stratified, random = [], []
    for seed in range(30):
        subset = multilabel_subset(labels, 0.05, seed)
        assert len(subset) == 200
        stratified.append(labels[subset].mean(0) - labels.mean(0))
        random.append(labels[generator.permutation(4000)[:200]].mean(0) - labels.mean(0))
    spread = np.square(stratified).mean(0) ** 0.5 / np.square(random).mean(0) ** 0.5
    assert spread.mean() < 0.7
    assert spread.max() < 1.05
    assert np.abs(np.mean(stratified, axis=0)).max() < 0.01


def test_exclusive_labels_are_subsampled_as_evenly_as_classes():
    classes = np.repeat([0, 1, 2], [500, 300, 200])
    labels = np.eye(3)[classes]
    for seed in range(20):
        counts = labels[multilabel_subset(labels, 0.1, seed)].sum(0)
        expected = np.bincount(classes[label_subset(classes, 0.1, seed)])
        assert np.abs(counts - expected).max() <= 2


def test_every_sample_is_drawn_equally_often():
    labels = np.array([[1, 0]] * 10 + [[0, 1]] * 20 + [[0, 0]] * 10)
    drawn = np.zeros(40)
    for seed in range(2000):
        drawn[multilabel_subset(labels, 0.3, seed)] += 1
    # Binomial(2000, 0.3): a standard deviation of 20; the largest of 40 deviations stays within five.
    assert np.abs(drawn - 600).max() < 100


def test_examples():
    failed, attempted = doctest.testmod(multilabel_probe)
    assert attempted
    assert not failed
