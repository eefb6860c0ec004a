"""The nearest-neighbour vote, compared with a loop over plain numbers and with scikit-learn."""

import math
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

from trueneg.data.samples import Subset
from trueneg.evaluation.images import EncodedRun
from trueneg.evaluation.images import knn as images_knn
from trueneg.evaluation.images.knn import effective_k, weighted_knn


def votes_by_the_book(bank, labels, query, k, temperature, classes):
    def cosine(a, b):
        return sum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))

    nearest = sorted(
        ((cosine(row, query), label) for row, label in zip(bank, labels, strict=True)), reverse=True
    )
    votes = [0.0] * classes
    for similarity, label in nearest[:k]:
        votes[label] += math.exp(similarity / temperature)
    return votes


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_predictions_match_a_naive_loop_over_votes(data):
    count, dimensions, classes = data.draw(
        st.tuples(st.integers(1, 15), st.integers(2, 5), st.integers(1, 4))
    )
    k = data.draw(st.integers(1, count))
    temperature = data.draw(st.sampled_from([0.02, 0.1, 1.0]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10_000)))
    bank = torch.randn(count, dimensions, generator=generator, dtype=torch.float64)
    queries = torch.randn(6, dimensions, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (count,), generator=generator)
    block = data.draw(st.sampled_from([1, 2 * max(count, k * classes), 2**24]))
    predictions = weighted_knn(
        bank, labels, queries, k=k, temperature=temperature, classes=classes, block=block
    )
    for prediction, query in zip(predictions.tolist(), queries.tolist(), strict=True):
        votes = votes_by_the_book(bank.tolist(), labels.tolist(), query, k, temperature, classes)
        assert votes[prediction] >= max(votes) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("k", "temperature", "weights"),
    [(15, math.inf, "uniform"), (50, 0.1, lambda distance: np.exp(-distance / 0.1))],
)
def test_predictions_match_scikit_learn(k, temperature, weights):
    pixels, labels = load_digits(return_X_y=True)
    reference = KNeighborsClassifier(
        n_neighbors=k, metric="cosine", algorithm="brute", weights=weights
    )
    expected = reference.fit(pixels[:1000], labels[:1000]).predict(pixels[1000:])
    bank, queries = torch.tensor(pixels).split([1000, len(pixels) - 1000])
    predictions = weighted_knn(
        bank, torch.tensor(labels)[:1000], queries, k=k, temperature=temperature, classes=10
    )
    # An image may have its k-th and its next neighbour at the same distance.
    assert (predictions.numpy() == expected).mean() > 0.998


def test_predictions_do_not_depend_on_block_size_or_feature_length():
    generator = torch.Generator().manual_seed(0)
    bank, queries = (
        torch.randn(200, 8, generator=generator),
        torch.randn(90, 8, generator=generator),
    )
    labels = torch.randint(5, (200,), generator=generator)
    vote = {"k": 20, "classes": 5}
    whole = weighted_knn(bank, labels, queries, **vote)
    assert len(whole.unique()) > 1
    assert torch.equal(whole, weighted_knn(bank, labels, queries, **vote, block=1))
    assert torch.equal(whole, weighted_knn(bank, labels, queries, **vote, block=200 * 7))
    lengths = torch.rand(200, 1, generator=generator) + 0.5
    assert torch.equal(whole, weighted_knn(bank * lengths, labels, queries * 4, **vote))


def test_low_temperatures_select_the_nearest_neighbour_without_underflow():
    bank = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.6, 0.8]])
    predictions = weighted_knn(
        bank, torch.tensor([1, 0, 0]), torch.tensor([[1.0, 0.1]]), k=3, temperature=1e-4, classes=2
    )
    assert predictions.tolist() == [1]


def test_empty_queries_give_empty_predictions():
    predictions = weighted_knn(
        torch.ones(2, 3), torch.tensor([0, 1]), torch.ones(0, 3), k=1, classes=2
    )
    assert (predictions.shape, predictions.dtype) == ((0,), torch.int64)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.integers(1, 50))
def test_effective_k_is_at_most_the_smallest_class(labels, k):
    assert effective_k(k, torch.tensor(labels)) == min(
        k, *(labels.count(label) for label in labels)
    )


def test_the_task_votes_with_its_temperature_and_the_labels_of_its_pool():
    """One near neighbour of class 0 outvotes two farther ones of class 1 at a low temperature only;
    of all images, one of class 1 is nearest. The tested image, of class 1, is no neighbour.
    """
    angles = np.radians([10.0, 40.0, 40.0, 5.0, 0.0])
    features = torch.from_numpy(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    labels = torch.tensor([0, 1, 1, 1, 1])
    subset = Subset(0, "", train=np.arange(3), test=np.array([4]), pool=np.arange(4))
    source = SimpleNamespace(class_names=("zero", "one"), labels=labels.numpy())
    run = EncodedRun("run", subset, source, features, labels, None, None)

    def accuracy(temperature, pool, neighbours):
        knn = {"neighbours": neighbours, "temperature": temperature, "label_pools": [pool]}
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(images_knn, "effective_k", lambda k, labels: k)
            rows = list(images_knn.measure([run], {"knn": knn}))
        (value,) = [
            value
            for _, split, measured, value in rows
            if measured.metric == "accuracy" and measured.group is None and split == "test"
        ]
        return float(value)

    assert accuracy(0.01, "imbalanced", 3) == 0.0
    assert accuracy(10.0, "imbalanced", 3) == 1.0
    assert accuracy(0.01, "all", 4) == 1.0
