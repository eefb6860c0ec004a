"""Drawing splits: by class and by groups, nested, and reproducible."""

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.data.splits import (
    connected_groups,
    drawn_splits,
    order_in_class,
    with_rare_classes,
)

quick = settings(deadline=None, max_examples=60)
seeds = st.integers(0, 2**31 - 1)
shares = st.floats(0.01, 0.6)


@st.composite
def grouped_samples(draw):
    """Samples of at most three strata, in groups of random sizes, each in one stratum."""
    generator = np.random.default_rng(draw(seeds))
    sizes = generator.integers(1, draw(st.integers(1, 12)) + 1, draw(st.integers(1, 40)))
    group = np.repeat(np.arange(len(sizes)), sizes)
    stratum = generator.integers(0, draw(st.integers(1, 3)), len(sizes))[group]
    shuffled = generator.permutation(len(group))
    return group[shuffled], stratum[shuffled], generator.random(len(group))


@quick
@given(grouped_samples(), shares, shares, st.integers(0, 3))
def test_no_group_is_in_two_splits_and_each_stratum_keeps_some(drawn, test, validation, keep):
    group, stratum, order = drawn
    asked = {"test": test, "validation": validation}
    split = drawn_splits(order, asked, stratum=stratum, group=group, keep=keep)
    size = np.bincount(group)

    def is_smallest_left(name):
        """Whether a split has one group, which is no larger than those that remain."""
        only = np.unique(group[split == name])
        left = np.unique(group[split == "train"])
        return len(only) == 1 and size[only[0]] <= size[left].min(initial=len(group))

    assert {*split.tolist()} <= {"train", "validation", "test"}
    for members in (split[group == number] for number in np.unique(group)):
        assert len(set(members.tolist())) == 1
    for number in np.unique(stratum):
        of_stratum = split[stratum == number]
        total = len(of_stratum)
        assert np.count_nonzero(of_stratum == "train") >= min(keep, total)
        held_out = np.isin(of_stratum, [name for name in asked if not is_smallest_left(name)])
        limit = sum(max(round(share * total), 1) for share in asked.values())
        assert np.count_nonzero(held_out) <= limit


@quick
@given(grouped_samples(), shares, shares)
def test_single_samples_are_held_out_in_order_and_in_exact_numbers(drawn, test, validation):
    _, stratum, order = drawn
    split = drawn_splits(order, {"test": test, "validation": validation}, stratum=stratum)
    for number in np.unique(stratum):
        members = np.flatnonzero(stratum == number)
        in_order = members[np.argsort(order[members])]
        of_test = min(max(round(test * len(members)), 1), len(members) - 1)
        of_validation = min(max(round(validation * len(members)), 1), len(members) - 1 - of_test)
        rest = len(members) - of_test - of_validation
        expected = ["test"] * of_test + ["validation"] * of_validation + ["train"] * rest
        assert split[in_order].tolist() == expected


@quick
@given(grouped_samples(), shares, shares)
def test_a_smaller_share_is_part_of_a_larger_one(drawn, first, second):
    _, stratum, order = drawn
    smaller, larger = (
        drawn_splits(order, {"test": share}, stratum=stratum) == "test"
        for share in sorted((first, second))
    )
    assert not (smaller & ~larger).any()


def test_a_group_larger_than_a_split_is_not_held_out():
    group = np.repeat(np.arange(11), [50, *[5] * 10])
    for seed in range(5):
        order = np.random.default_rng(seed).random(len(group))
        split = drawn_splits(order, {"test": 0.2, "validation": 0.1}, group=group)
        counts = {name: np.count_nonzero(split == name) for name in ("test", "validation")}
        assert counts == {"test": 20, "validation": 10}
        assert set(split[:50]) == {"train"}


@quick
@given(seeds, st.integers(1, 3), st.integers(1, 60))
def test_groups_are_the_connected_components_of_shared_contents(seed, columns, contents):
    shared = np.random.default_rng(seed).integers(0, contents, (30, columns))
    graph = networkx.Graph(
        (("sample", index), int(number)) for index, row in enumerate(shared) for number in row
    )
    group = connected_groups(shared)
    components = [
        {node[1] for node in component if isinstance(node, tuple)}
        for component in networkx.connected_components(graph)
    ]
    by_group = [set(np.flatnonzero(group == number).tolist()) for number in np.unique(group)]
    assert sorted(map(sorted, by_group)) == sorted(map(sorted, components))


@quick
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), seeds)
def test_the_order_of_a_class_is_a_permutation_that_other_classes_do_not_change(labels, seed):
    labels = np.array(labels)
    order = order_in_class(labels, seed)
    for label in np.unique(labels):
        assert sorted(order[labels == label]) == list(range(np.count_nonzero(labels == label)))
    others = np.where(labels == 0, 0, 7)
    assert (order_in_class(others, seed)[labels == 0] == order[labels == 0]).all()
    assert (order_in_class(labels, seed) == order).all()


@pytest.mark.parametrize("least", [1, 2])
def test_rare_classes_keep_the_first_of_their_samples(least):
    labels = np.repeat([0, 1, 2], [10, 10, 1])
    order = np.random.default_rng(0).random(21)
    kept = with_rare_classes(labels, [1, 2], 0.1, order, least)
    of_class = {label: kept[labels[kept] == label] for label in range(3)}
    assert of_class[0].tolist() == list(range(10))
    assert set(of_class[1]) == set(10 + np.argsort(order[10:20])[:least])
    assert of_class[2].tolist() == [20]


@pytest.mark.parametrize(("groups", "held_out"), [(12, 2), (3, 2), (2, 1), (1, 0)])
def test_large_groups_are_held_out_if_there_are_no_others(groups, held_out):
    """A group has samples of all strata, and each is larger than a split."""
    group = np.repeat(np.arange(groups), 25)
    stratum = np.arange(25 * groups) % 3
    order = np.random.default_rng(0).permutation(25 * groups)
    shares = {"validation": 0.05, "test": 0.05}
    split = drawn_splits(order, shares, stratum=stratum, group=group, keep=0)
    of_group = [set(split[group == number]) for number in range(groups)]
    assert all(len(each) == 1 for each in of_group)
    names = set.union(*of_group)
    assert "train" in names
    assert len(names - {"train"}) == held_out
    for name in names - {"train"}:
        assert of_group.count({name}) == 1
