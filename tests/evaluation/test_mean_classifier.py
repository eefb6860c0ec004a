"""Equation 16, compared with a loop over plain numbers."""

import math

import hypothesis.strategies as st
import torch
from hypothesis import given, settings

from trueneg.evaluation.mean_classifier import class_means, mean_classifier


def scores_by_the_book(bank, labels, query, classes):
    def unit(row):
        return [value / math.hypot(*row) for value in row]

    scores = []
    for label in range(classes):
        members = [unit(row) for row, own in zip(bank, labels, strict=True) if own == label]
        mean = [sum(column) / len(members) for column in zip(*members, strict=True)]
        scores.append(
            sum(a * b for a, b in zip(mean, unit(query), strict=True)) if members else -math.inf
        )
    return scores


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 15), st.integers(1, 5), st.integers(1, 6), st.integers(0, 10_000))
def test_predictions_match_a_naive_loop_over_scores(count, dimensions, classes, seed):
    generator = torch.Generator().manual_seed(seed)
    bank = torch.randn(count, dimensions, generator=generator, dtype=torch.float64)
    queries = torch.randn(5, dimensions, generator=generator, dtype=torch.float64)
    labels = torch.randint(classes, (count,), generator=generator)  # some classes are often absent
    predictions = mean_classifier(bank, labels, queries, classes=classes)
    for prediction, query in zip(predictions.tolist(), queries.tolist(), strict=True):
        scores = scores_by_the_book(bank.tolist(), labels.tolist(), query, classes)
        assert scores[prediction] >= max(scores) - 1e-12


def test_features_are_normalised_but_class_means_are_not():
    bank = torch.tensor([[9.0, 0.0], [0.0, 1.0], [1.0, 0.0], [3.0, 0.0]])
    means = class_means(bank, torch.tensor([0, 0, 1, 1]), classes=2)
    torch.testing.assert_close(means, torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    # Along (0.9, 1.1) the scattered class scores 0.70 (its direction would score 0.99), the tight
    # one 0.63; along (1, 0.9) it scores 0.71 against 0.74.
    queries = torch.tensor([[0.9, 1.1], [1.0, 0.9]])
    assert mean_classifier(bank, torch.tensor([0, 0, 1, 1]), queries, classes=2).tolist() == [0, 1]


def test_classes_without_images_are_never_predicted():
    bank, queries = torch.tensor([[1.0, 0.0]]), torch.tensor([[-1.0, 0.0], [1.0, 1.0]])
    assert mean_classifier(bank, torch.tensor([1]), queries, classes=3).tolist() == [1, 1]
