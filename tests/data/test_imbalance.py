"""CIFAR10-r: classes that are made rare."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.data.imbalance import class_probabilities, imbalanced_indices

quick = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 2**31 - 1)
fractions = st.floats(0.01, 1)


@st.composite
def labels_in_classes(draw):
    sizes = draw(st.lists(st.integers(1, 40), min_size=2, max_size=6))
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return np.random.default_rng(draw(seeds)).permutation(labels)


@quick
@given(labels_in_classes(), fractions, seeds, st.data())
def test_rare_classes_keep_their_share_and_other_classes_all_images(labels, fraction, seed, data):
    rare = data.draw(st.sets(st.sampled_from(range(labels.max() + 1))))
    kept = imbalanced_indices(labels, fraction, rare, seed)
    assert kept.dtype == np.int64
    assert (np.diff(kept) > 0).all()
    for label in range(labels.max() + 1):
        size = int((labels == label).sum())
        expected = max(round(fraction * size), 1) if label in rare else size
        assert int((labels[kept] == label).sum()) == expected


@quick
@given(labels_in_classes(), fractions, fractions, seeds)
def test_subsets_of_one_seed_are_nested_across_fractions(labels, first, second, seed):
    smaller, larger = (
        imbalanced_indices(labels, fraction, [0, 1], seed) for fraction in sorted((first, second))
    )
    assert set(smaller) <= set(larger)


@quick
@given(labels_in_classes(), fractions, seeds)
def test_the_images_that_a_class_keeps_do_not_depend_on_other_classes(labels, fraction, seed):
    of_class_0 = [
        [index for index in imbalanced_indices(labels, fraction, rare, seed) if labels[index] == 0]
        for rare in ([0], [0, 1])
    ]
    assert of_class_0[0] == of_class_0[1]


def test_all_images_are_equally_likely_to_be_kept():
    labels = np.repeat([0, 1], 10)
    kept = np.concatenate([imbalanced_indices(labels, 0.3, [1], seed) for seed in range(600)])
    counts = np.bincount(kept, minlength=20)
    assert (counts[:10] == 600).all()
    # Each of ten images is kept with probability 0.3: 180 of 600 times, with a standard deviation
    # of 11.
    assert (abs(counts[10:] - 180) < 5 * 11.3).all()


@pytest.mark.parametrize("fraction", [0, -0.1, 1.0001, float("nan"), float("inf")])
def test_a_fraction_outside_zero_to_one_is_refused(fraction):
    with pytest.raises(ValueError, match="expected a number above 0 and at most 1"):
        imbalanced_indices(np.array([0, 1]), fraction, [0], 0)
    with pytest.raises(ValueError, match="expected a number above 0 and at most 1"):
        class_probabilities(fraction)


def test_a_rare_class_without_images_is_refused():
    with pytest.raises(ValueError, match="rare class 7 has no image"):
        imbalanced_indices(np.array([0, 1]), 0.5, [7], 0)


@quick
@given(fractions)
def test_class_probabilities_equal_those_of_the_paper(fraction):
    assert class_probabilities(fraction) == pytest.approx(
        (0.2 * fraction / (1 + fraction), 0.2 / (1 + fraction)), rel=1e-12
    )


@quick
@given(st.integers(2, 12), st.data())
def test_class_probabilities_are_the_frequencies_after_subsampling(classes, data):
    rare = data.draw(st.integers(1, classes - 1))
    kept = data.draw(st.integers(1, 50))
    labels = np.repeat(np.arange(classes), 50)
    counts = np.bincount(labels[imbalanced_indices(labels, kept / 50, range(rare), seed=0)])
    expected = counts[0] / counts.sum(), counts[-1] / counts.sum()
    assert class_probabilities(kept / 50, classes, rare) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("rare", [-1, 10, 11])
def test_class_probabilities_need_a_common_class(rare):
    with pytest.raises(ValueError, match="at least one common class"):
        class_probabilities(0.5, 10, rare)
