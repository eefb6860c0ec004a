"""Draws from small tables have the promised chances, and never two pairs of an anchor or group."""

import itertools

import numpy as np
import pytest

from trueneg.audit import sampling
from trueneg.audit.sampling import Frame, allocated, draw, owners_of, ranges_of

ANCHORS = np.repeat(np.arange(12), 8)  # eight candidates each
GROUPS = np.where(ANCHORS < 4, ANCHORS // 2, -1)  # two groups of two anchors
RANGES = ranges_of(np.tile(np.arange(1, 9), 12), (2, 8))
SIMILARITY = np.random.default_rng(0).permutation(len(ANCHORS)) / 100


@pytest.fixture(scope="module")
def drawn():
    frame = Frame(owners_of(ANCHORS, GROUPS), RANGES, SIMILARITY)
    return frame.drawn(5, np.random.default_rng(1), times=4_000)


def test_all_pairs_of_a_range_have_the_same_chance(drawn):
    shares = np.bincount(drawn.ravel(), minlength=len(ANCHORS)) / len(drawn)
    for number, count in enumerate(allocated(np.bincount(RANGES), 5)):
        chance = count / (number == RANGES).sum()
        error = (chance * (1 - chance) / len(drawn)) ** 0.5
        assert np.abs(shares[number == RANGES] - chance).max() < 4.5 * error


def test_no_two_pairs_share_an_anchor_or_a_group(drawn):
    assert all(len(set(ANCHORS[rows])) == 5 for rows in drawn)
    groups = [GROUPS[rows][GROUPS[rows] >= 0] for rows in drawn]
    assert all(len(set(each)) == len(each) for each in groups)
    assert max(map(len, groups)) == 2


def test_an_anchor_without_a_group_is_not_in_the_group_of_its_number():
    owners = owners_of(np.array([0, 1, 2, 3]), np.array([-1, 0, 0, -1]))
    assert owners[1] == owners[2]
    assert len(set(owners)) == 3


def test_each_cell_of_similar_pairs_contributes_one(drawn):
    count = allocated(np.bincount(RANGES), 5)[1]
    rows = np.flatnonzero(RANGES == 1)
    cell = np.empty(len(RANGES), int)
    cell[rows[np.argsort(-SIMILARITY[rows])]] = np.arange(len(rows)) * count // len(rows)
    of_range = drawn[:, -count:]
    assert (RANGES[of_range] == 1).all()
    assert (cell[of_range] == np.arange(count)).all()


def test_a_half_holds_half_of_each_owner_and_cell():
    rng = np.random.default_rng(2)
    for _ in range(20):
        owners, cells = rng.integers(0, 9, 60), rng.integers(0, 7, 60)
        kept = sampling._half(owners, cells, rng)
        for labels in (owners, cells):
            difference = 2 * np.bincount(labels[kept], minlength=9) - np.bincount(
                labels, minlength=9
            )
            assert np.abs(difference).max() <= 1


def test_a_large_group_contributes_one_pair():
    groups = np.where(ANCHORS < 8, 0, -1)  # two thirds of the table
    sample = draw(ANCHORS, groups, RANGES, SIMILARITY, pairs=5)
    assert (groups[sample.rows] == 0).sum() <= 1
    assert len(sample.rows) < 5


def test_a_sample_depends_on_its_seed_only():
    first, again, other = (
        draw(ANCHORS, GROUPS, RANGES, SIMILARITY, pairs=5, seed=seed) for seed in (3, 3, 4)
    )
    assert all(np.array_equal(*values) for values in zip(first, again, strict=True))
    assert first.rows.tolist() != other.rows.tolist()
    assert first.weights.sum() == pytest.approx(len(ANCHORS))
    assert (np.diff(RANGES[first.rows]) >= 0).all()


def test_a_small_table_is_drawn_once_per_anchor():
    sample = draw(np.arange(6), np.full(6, -1), np.zeros(6, int), np.arange(6) / 6)
    assert sorted(sample.rows) == list(range(6))


def test_no_pair_stands_for_many_more_than_in_a_simple_sample():
    for sizes in ([50, 50, 200, 700], [10, 990], [0, 300, 700], [400]):
        counts = allocated(np.array(sizes), 120)
        assert counts.sum() == 120
        weights = np.divide(sizes, counts, where=counts > 0, out=np.zeros(len(sizes)))
        assert weights.max() / (sum(sizes) / 120) < 1.15


def test_each_range_with_pairs_contributes_one_if_there_are_enough():
    for sizes in itertools.product((0, 1, 5, 20, 700), repeat=3):
        filled = np.count_nonzero(sizes)
        for pairs in range(max(filled, 1), min(sum(sizes), 12) + 1):
            counts = allocated(np.array(sizes), pairs)
            assert np.count_nonzero(counts) == filled, (sizes, pairs)
            assert (counts <= sizes).all()
            assert counts.sum() == pairs or (counts == sizes).any()
