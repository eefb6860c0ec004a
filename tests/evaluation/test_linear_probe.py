"""Linear heads match a plain training loop and scikit-learn; label subsets are stratified and
nested.
"""

from math import nan

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from torch.nn import functional

from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.subsets import make_subset
from trueneg.evaluation.images import EncodedRun
from trueneg.evaluation.images.linear_probe import label_subset, labelled_images, measure
from trueneg.evaluation.linear_heads import (
    cross_entropy,
    known_binary_cross_entropy,
    train_linear_heads,
)
from trueneg.evaluation.pairs.linear_probe import linear_evaluation, multilabel_subset
from trueneg.randomness import seed_for
from trueneg.training.augment import Augmentation


def mean_over_known_labels(logits, labels):
    known = ~labels.isnan()
    losses = functional.binary_cross_entropy_with_logits(
        logits[known], labels[known], reduction="none"
    )
    return losses.sum() / max(1, len(losses))


REFERENCE = {
    cross_entropy: functional.cross_entropy,
    known_binary_cross_entropy: mean_over_known_labels,
}


def train_alone(
    features, labels, classes, loss, seed, epochs, batch_size, learning_rate, weight_decay
):
    """A plain training loop for one head."""
    torch.manual_seed(seed)
    head = torch.nn.Linear(features.shape[1], classes, dtype=features.dtype)
    optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate, weight_decay=weight_decay)
    for _ in range(epochs):
        for batch in torch.randperm(len(features)).split(batch_size):
            optimizer.zero_grad()
            REFERENCE[loss](head(features[batch]), labels[batch]).backward()
            optimizer.step()
    return head


def random_samples(count, dimensions, classes, seed, loss=cross_entropy, unknown=0.0):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, dimensions, generator=generator, dtype=torch.float64)
    if loss is cross_entropy:
        return features, torch.randint(classes, (count,), generator=generator)
    labels = torch.randint(2, (count, classes), generator=generator).double()
    labels[torch.rand(count, classes, generator=generator) < unknown] = nan
    return features, labels


@settings(deadline=None, max_examples=50)
@given(
    loss=st.sampled_from(list(REFERENCE)),
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
    loss, heads, count, dimensions, classes, batch_size, weight_decay, unknown, seed
):
    seeds = [seed + index for index in range(heads)]
    samples = [
        random_samples(count, dimensions, classes, index, loss, unknown) for index in range(heads)
    ]
    protocol = {
        "epochs": 3,
        "batch_size": batch_size,
        "learning_rate": 1e-2,
        "weight_decay": weight_decay,
    }
    together = train_linear_heads(
        *zip(*samples, strict=True), classes, loss, **protocol, seeds=seeds
    )
    logits = together.logits([features for features, _ in samples])
    for index, (features, labels) in enumerate(samples):
        alone = train_alone(features, labels, classes, loss, seeds[index], **protocol)
        torch.testing.assert_close(
            together.weights[index], alone.weight.detach().T, rtol=1e-6, atol=1e-9
        )
        torch.testing.assert_close(together.bias[index], alone.bias.detach(), rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(logits[index], alone(features).detach(), rtol=1e-6, atol=1e-8)


def test_heads_with_different_numbers_of_samples_raise_an_error():
    samples = [random_samples(count, 2, 3, seed=0) for count in (4, 6)]
    protocol = {"epochs": 1, "batch_size": 3, "learning_rate": 0.1, "weight_decay": 0.0}
    with pytest.raises(RuntimeError, match="equal size"):
        train_linear_heads(*zip(*samples, strict=True), 3, cross_entropy, seeds=[0, 1], **protocol)


def test_accuracy_on_digits_matches_converged_logistic_regression():
    pixels, labels = load_digits(return_X_y=True)
    pixels = pixels / 16
    train = np.random.default_rng(0).permutation(len(labels)) < 1200
    reference = LogisticRegression(C=100, max_iter=5000).fit(pixels[train], labels[train])
    features, targets = torch.tensor(pixels, dtype=torch.float32), torch.tensor(labels)
    protocol = {"epochs": 300, "batch_size": 64, "learning_rate": 1e-2, "weight_decay": 1e-6}
    probes = train_linear_heads(
        [features[train]], [targets[train]], 10, cross_entropy, seeds=[0], **protocol
    )
    accuracy = (
        (probes.logits([features[~train]])[0].argmax(1) == targets[~train]).double().mean().item()
    )
    assert accuracy == pytest.approx(reference.score(pixels[~train], labels[~train]), abs=0.015)
    assert accuracy > 0.93


@pytest.fixture(scope="module")
def findings():
    """Noisy linear features of three correlated findings, the last one rare."""
    generator = np.random.default_rng(0)
    features = generator.standard_normal((3000, 12))
    logits = (
        features @ generator.standard_normal((12, 3)) * 0.7
        + [0.0, -1.0, -3.0]
        + 0.8 * features[:, :1]
    )
    labels = (generator.random((3000, 3)) < 1 / (1 + np.exp(-logits))).astype(float)
    return features, labels


def test_converged_heads_match_logistic_regression_per_label(findings):
    features, labels = findings
    # The loss is a mean over samples AND classes, scikit-learn's a sum over samples; Adam also
    # penalises the bias.
    penalty, samples = 1e-3, ([torch.tensor(features)], [torch.tensor(labels)])
    with_constant = np.column_stack([features, np.ones(len(features))])
    protocol = {"epochs": 400, "batch_size": 3000, "learning_rate": 0.05, "weight_decay": penalty}
    heads = train_linear_heads(*samples, 3, known_binary_cross_entropy, seeds=[0], **protocol)
    for label in range(3):
        reference = LogisticRegression(
            C=1 / (penalty * labels.size), fit_intercept=False, tol=1e-10, max_iter=2000
        )
        expected = reference.fit(with_constant, labels[:, label]).coef_[0]
        np.testing.assert_allclose(
            [*heads.weights[0, :, label], heads.bias[0, label]], expected, atol=0.001
        )


def test_linear_evaluation_matches_scikit_learn_and_improves_with_more_labels(findings):
    features, labels = findings
    names = ["effusion", "edema", "pneumothorax"]
    train, test = slice(0, 2000), slice(2000, None)
    options = {"epochs": 300, "batch_size": 512, "learning_rate": 0.01, "weight_decay": 1e-6}
    parts = [
        (torch.tensor(features[part], dtype=torch.float32), labels[part]) for part in (train, test)
    ]
    areas = linear_evaluation(*parts, names, 0, fractions=[0.01, 0.1, 1.0], **options)
    assert list(areas) == [0.01, 0.1, 1.0]
    for label, name in enumerate(names):
        reference = LogisticRegression(C=1e4, max_iter=2000).fit(
            features[train], labels[train, label]
        )
        expected = roc_auc_score(labels[test, label], reference.decision_function(features[test]))
        assert areas[1.0][name] == pytest.approx(expected, abs=0.01)
    assert areas[1.0]["mean"] == pytest.approx(np.mean([areas[1.0][name] for name in names]))
    assert 0.6 < areas[0.01]["mean"] < areas[0.1]["mean"] < areas[1.0]["mean"]


def test_linear_evaluation_trains_on_the_subset_and_ignores_unknown_labels(findings):
    features, labels = (part[:300].copy() for part in findings)
    labels[::7, 0] = labels[::5, 1] = nan
    features = torch.tensor(features)
    options = {"epochs": 5, "batch_size": 64, "learning_rate": 1e-2, "weight_decay": 1e-6}
    areas = linear_evaluation(
        (features, labels), (features, labels), ["a", "b", "c"], 3, fractions=[0.2], **options
    )
    kept, seed = multilabel_subset(labels, 0.2, seed=3), seed_for(3, "linear probe")
    alone = train_alone(
        features[kept], torch.tensor(labels)[kept], 3, known_binary_cross_entropy, seed, **options
    )
    scores = alone(features).detach().numpy()
    for label, name in enumerate("abc"):
        known = labels[:, label] >= 0
        assert areas[0.2][name] == pytest.approx(
            roc_auc_score(labels[known, label], scores[known, label])
        )


def test_nan_features_raise_an_error(findings):
    features, labels = (part[:50] for part in findings)
    diverged = torch.full(features.shape, nan)
    options = {"epochs": 1, "batch_size": 50, "learning_rate": 1e-2, "weight_decay": 0.0}
    with pytest.raises(ValueError, match="scores are NaN"):
        linear_evaluation(
            (diverged, labels), (diverged, labels), ["a", "b", "c"], 0, fractions=[1.0], **options
        )


CLASSES = st.lists(st.integers(0, 4), min_size=1, max_size=80).map(np.array)
LABELS = arrays(
    np.float64,
    st.tuples(st.integers(1, 60), st.integers(1, 4)),
    elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, nan]),
)


@settings(deadline=None, max_examples=140)
@given(
    st.one_of(
        CLASSES.map(lambda classes: (label_subset, classes)),
        LABELS.map(lambda labels: (multilabel_subset, labels)),
    ),
    st.lists(st.floats(1e-4, 1), min_size=2, max_size=2).map(sorted),
    st.integers(0, 1000),
)
def test_label_subsets_are_stratified_and_nested(drawn, fractions, seed):
    subset_of, labels = drawn
    small, large = (subset_of(labels, fraction, seed) for fraction in fractions)
    assert set(small) <= set(large)
    assert np.array_equal(small, subset_of(labels, fractions[0], seed))
    assert np.array_equal(subset_of(labels, 1, seed), np.arange(len(labels)))
    for subset, fraction in zip((small, large), fractions, strict=True):
        assert np.array_equal(subset, np.unique(subset))
        if subset_of is label_subset:
            for label in np.unique(labels):
                kept, available = np.sum(labels[subset] == label), np.sum(labels == label)
                assert kept >= 1
                assert abs(kept - fraction * available) <= max(0.5, 1 - fraction * available)
        else:
            wanted = max(1, round(fraction * len(labels)))
            assert wanted <= len(subset) <= wanted + 2 * labels.shape[1]
            for value in (0, 1):  # both values of every label are kept
                assert np.array_equal((labels[subset] == value).any(0), (labels == value).any(0))


def test_stratified_label_shares_are_closer_than_random_ones():
    """Ten correlated labels with frequencies of 2 to 40 %: the share of each among 5 % of 4,000
    images.
    """
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


@pytest.mark.parametrize(
    ("subset_of", "labels"),
    [
        (label_subset, np.repeat([0, 1], [10, 30])),
        (multilabel_subset, np.array([[1, 0]] * 10 + [[0, 1]] * 20 + [[0, 0]] * 10)),
    ],
)
def test_every_sample_is_drawn_equally_often(subset_of, labels):
    drawn = np.zeros(40)
    for seed in range(2000):
        drawn[subset_of(labels, 0.3, seed)] += 1
    # Binomial(2000, 0.3): a standard deviation of 20; the largest of 40 deviations stays within
    # five.
    assert np.abs(drawn - 600).max() < 100


def test_no_label_pool_contains_an_unlabelled_image():
    labels = np.append(np.arange(60) % 3, np.full(40, -1))
    images = np.repeat(np.arange(100, dtype=np.uint8), 4).reshape(100, 1, 2, 2)
    is_test = np.arange(100) < 15
    source = ImageSource("partly", images, labels, is_test, ("a", "b", "c"))
    subset = make_subset(source, seed=0, rare_classes=["a"], fraction=0.5)
    networks = torch.nn.Identity(), Augmentation([0.5], [0.5])
    run = EncodedRun(
        "abc", subset, source, torch.zeros(100, 2), torch.from_numpy(labels), *networks
    )
    pools = {name: labels[run.pool(name)] for name in ("imbalanced", "all")}
    assert np.bincount(pools["imbalanced"]).tolist()[1:] == np.bincount(pools["all"]).tolist()[1:]
    assert 2 * (pools["imbalanced"] == 0).sum() <= (pools["all"] == 0).sum() + 1
    assert (labels[subset.train] < 0).sum() == 40
    for name in pools:
        assert labelled_images(run, name, 1.0).tolist() == run.pool(name).tolist()


def test_probes_of_runs_with_splits_of_different_sizes_are_those_of_each_run():
    """Equal images, which no two splits share, change the sizes of splits."""
    generator = np.random.default_rng(0)
    labels = np.arange(200) % 4
    images = generator.integers(0, 255, (200, 1, 4, 4), dtype=np.uint8)
    images[100:140] = images[:40]
    source = ImageSource("equal", images, labels, np.zeros(200, bool), tuple("abcd"))
    features = torch.from_numpy(generator.normal(size=(200, 6)).astype(np.float32))
    networks = torch.nn.Identity(), Augmentation([0.5], [0.5])
    runs = [
        EncodedRun(
            str(seed),
            make_subset(source, seed=seed),
            source,
            features,
            torch.from_numpy(labels),
            *networks,
        )
        for seed in range(4)
    ]
    assert len({len(run.subset.test) for run in runs}) > 1
    settings = {
        "linear_probe": {"label_pools": ["all"], "label_fractions": [1.0], "epochs": 3}
        | {"batch_size": 32, "learning_rate": 0.01, "weight_decay": 0.0}
    }

    def measured(runs):
        return {(run.id, *row): float(value) for run, *row, value in measure(runs, settings)}

    together = measured(runs)
    alone = {key: value for run in runs for key, value in measured([run]).items()}
    assert together == pytest.approx(alone, abs=1e-6)
