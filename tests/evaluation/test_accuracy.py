"""Accuracies against scikit-learn and by hand."""

import warnings

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.metrics import accuracy_score, balanced_accuracy_score, recall_score

from trueneg.evaluation.accuracy import accuracies

NAMES = ["cat", "dog", "frog", "ship"]


def test_groups_are_means_of_class_accuracies():
    labels = np.array([0, 0, 0, 0, 1, 1, 3])
    predictions = np.array([0, 0, 0, 1, 1, 0, 2])
    assert accuracies(predictions, labels, NAMES, rare_classes=(1, 3)) == {
        None: 4 / 7,
        "rare": (1 / 2 + 0) / 2,
        "common": 3 / 4,  # no image shows a frog
        "macro": (3 / 4 + 1 / 2 + 0) / 3,
        "cat": 3 / 4,
        "dog": 1 / 2,
        "ship": 0.0,
    }


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40),
    st.sets(st.integers(0, 3)),
)
def test_accuracies_match_scikit_learn(pairs, rare):
    predictions, labels = np.array(pairs).T
    found = accuracies(predictions, labels, NAMES, rare)
    present = sorted(set(labels.tolist()))
    recalls = dict(
        zip(present, recall_score(labels, predictions, labels=present, average=None), strict=True)
    )
    expected = {None: accuracy_score(labels, predictions)}
    for group, members in (("rare", set(present) & rare), ("common", set(present) - rare)):
        if members:
            expected[group] = np.mean([recalls[label] for label in sorted(members)])
    with warnings.catch_warnings(action="ignore"):  # classes that are predicted, but in no label
        expected["macro"] = balanced_accuracy_score(labels, predictions)
    expected.update({NAMES[label]: value for label, value in recalls.items()})
    assert found == pytest.approx(expected)
    assert list(found) == list(expected)
    assert all(type(value) is float for value in found.values())
