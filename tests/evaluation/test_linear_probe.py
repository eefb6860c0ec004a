"""Heads trained together match heads trained separately with torch.nn.Linear and torch.optim.Adam."""

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.subsets import make_subset
from trueneg.evaluation.images import EncodedRun
from trueneg.evaluation.images.linear_probe import label_subset
from trueneg.evaluation.linear_heads import cross_entropy, train_linear_heads


def train_alone(features, labels, classes, seed, epochs, batch_size, learning_rate, weight_decay):
    """The protocol as anyone would write it for one head."""
    torch.manual_seed(seed)
    head = torch.nn.Linear(features.shape[1], classes, dtype=features.dtype)
    optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate, weight_decay=weight_decay)
    for _ in range(epochs):
        for batch in torch.randperm(len(features)).split(batch_size):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(head(features[batch]), labels[batch]).backward()
            optimizer.step()
    return head


def random_head(count, dimensions, classes, seed, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(count, dimensions, generator=generator, dtype=dtype)
    return features, torch.randint(classes, (count,), generator=generator)


@settings(deadline=None, max_examples=25)
@given(
    heads=st.integers(1, 4),
    count=st.integers(1, 20),
    dimensions=st.integers(1, 6),
    classes=st.integers(2, 4),
    batch_size=st.integers(1, 12),
    weight_decay=st.sampled_from([0.0, 1e-6, 0.1]),
    seed=st.integers(0, 2**63 - 1),
)
def test_heads_trained_together_match_heads_trained_separately(heads, count, dimensions, classes, batch_size, weight_decay, seed):
    seeds = [seed - index if seed >= heads else seed + index for index in range(heads)]
    heads = [random_head(count, dimensions, classes, index) for index in range(heads)]
    protocol = {"epochs": 3, "batch_size": batch_size, "learning_rate": 1e-2, "weight_decay": weight_decay}
    together = train_linear_heads(*zip(*heads, strict=True), classes, cross_entropy, **protocol, seeds=seeds)
    for index, (features, labels) in enumerate(heads):
        alone = train_alone(features, labels, classes, seeds[index], **protocol)
        torch.testing.assert_close(together.weights[index], alone.weight.detach().T, rtol=1e-6, atol=1e-9)
        torch.testing.assert_close(together.bias[index], alone.bias.detach(), rtol=1e-6, atol=1e-9)
        own = [features for features, _ in heads]
        assert torch.equal(together.logits(own)[index].argmax(1), alone(own[index]).argmax(1))


def test_heads_with_different_numbers_of_samples_raise_an_error():
    heads = [random_head(count, 2, 3, seed=0) for count in (4, 6)]
    protocol = {"epochs": 1, "batch_size": 3, "learning_rate": 0.1, "weight_decay": 0.0}
    with pytest.raises(RuntimeError, match="equal size"):
        train_linear_heads(*zip(*heads, strict=True), 3, cross_entropy, seeds=[0, 1], **protocol)


def test_accuracy_on_digits_matches_converged_logistic_regression():
    pixels, labels = load_digits(return_X_y=True)
    pixels = pixels / 16
    train = np.random.default_rng(0).permutation(len(labels)) < 1200
    reference = LogisticRegression(C=100, max_iter=5000).fit(pixels[train], labels[train])
    features, targets = torch.tensor(pixels, dtype=torch.float32), torch.tensor(labels)
    probes = train_linear_heads(
        [features[train]],
        [targets[train]],
        10,
        cross_entropy,
        epochs=300,
        batch_size=64,
        learning_rate=1e-2,
        weight_decay=1e-6,
        seeds=[0],
    )
    accuracy = (probes.logits([features[~train]])[0].argmax(1) == targets[~train]).double().mean().item()
    assert accuracy == pytest.approx(reference.score(pixels[~train], labels[~train]), abs=0.015)
    assert accuracy > 0.93


label_vectors = st.lists(st.integers(0, 4), min_size=1, max_size=80).map(np.array)


@settings(deadline=None, max_examples=60)
@given(label_vectors, st.floats(1e-4, 1), st.floats(1e-4, 1), st.integers(0, 1000))
def test_label_subsets_are_stratified_and_nested(labels, one, other, seed):
    small, large = (label_subset(labels, fraction, seed) for fraction in sorted([one, other]))
    assert set(small) <= set(large)
    for subset, fraction in zip((small, large), sorted([one, other]), strict=True):
        assert np.array_equal(subset, np.unique(subset))
        for label in np.unique(labels):
            kept, available = np.sum(labels[subset] == label), np.sum(labels == label)
            assert kept >= 1
            assert abs(kept - fraction * available) <= max(0.5, 1 - fraction * available)
    assert np.array_equal(small, label_subset(labels, min(one, other), seed))
    assert np.array_equal(label_subset(labels, 1, seed), np.arange(len(labels)))


def test_label_subsets_vary_with_the_seed_and_draw_samples_equally_often():
    labels = np.repeat([0, 1], [10, 30])
    drawn = np.zeros(40)
    for seed in range(2000):
        drawn[label_subset(labels, 0.3, seed)] += 1
    # Binomial(2000, 0.3): a standard deviation of 20; the largest of 40 deviations stays within five.
    assert np.abs(drawn - 600).max() < 100


def test_no_label_pool_holds_an_unlabelled_image():
    labels = np.append(np.arange(60) % 3, np.full(40, -1))
    images, is_test = np.zeros((100, 1, 2, 2), np.uint8), np.arange(100) < 15
    source = ImageSource("partly", images, labels, is_test, ("a", "b", "c"))
    subset = make_subset(source, seed=0, rare_classes=["a"], fraction=0.5)
    run = EncodedRun("abc", subset, source, torch.zeros(100, 2), torch.from_numpy(labels))
    pools = {name: labels[run.pool(name)] for name in ("imbalanced", "all")}
    assert np.bincount(pools["imbalanced"]).tolist()[1:] == np.bincount(pools["all"]).tolist()[1:]
    assert 2 * (pools["imbalanced"] == 0).sum() <= (pools["all"] == 0).sum() + 1
    assert (labels[subset.train] < 0).sum() == 40
