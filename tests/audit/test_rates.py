"""Intervals of audits against exact enumerations, scipy's exact interval, and simulated audits."""

import itertools

import numpy as np
import pytest
from scipy import stats

from trueneg.audit.rates import in_batch_bound, limits, rate, rate_with_judge, thresholds
from trueneg.audit.sampling import Frame, ranges_of


def exact(false, rated, level=0.95):
    """Return the interval of Clopper and Pearson from scipy."""
    return stats.binomtest(false, rated).proportion_ci(level, method="exact")


def ends(found):
    return pytest.approx(tuple(found), abs=1e-7)


@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
@pytest.mark.parametrize("count", [1, 7, 120])
def test_one_range_has_the_exact_interval(count, level):
    for false in range(0, count + 1, 1 + count // 20):
        found = limits(np.array([false]), np.array([count]), np.array([900]), level)
        assert tuple(map(float, found)) == ends(exact(false, count, level))


@pytest.mark.parametrize(
    ("rated", "sizes"),
    [
        ([3, 3], [50, 50]),
        ([12, 4], [9, 1]),
        ([4, 8, 2], [30, 30, 40]),
        ([5, 5, 5], [5, 20, 75]),
        ([2, 12, 3], [1, 60, 39]),
    ],
)
def test_stratified_intervals_cover_every_share(rated, sizes):
    outcomes = np.array(list(itertools.product(*(range(count + 1) for count in rated))))
    low, high = limits(outcomes, np.array(rated), np.array(sizes))
    grid = [0, 0.003, 0.02, 0.08, 0.2, 0.5, 0.8, 0.97, 1]
    for shares in itertools.product(grid, repeat=len(rated)):
        chances = stats.binom.pmf(outcomes, rated, shares).prod(1)
        truth = np.average(shares, weights=sizes)
        is_covered = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
        assert chances[is_covered].sum() >= 0.95, shares


def test_intervals_cover_small_tables_sampled_without_replacement():
    sizes, rated = np.array([9, 20]), np.array([4, 6])
    outcomes = np.array(list(itertools.product(range(5), range(7))))
    low, high = limits(outcomes, rated, sizes)
    for false in itertools.product(range(10), range(0, 21, 2)):
        chances = stats.hypergeom.pmf(outcomes, sizes, false, rated).prod(1)
        truth = sum(false) / sizes.sum()
        is_covered = (low <= truth + 1e-12) & (truth - 1e-12 <= high)
        assert chances[is_covered].sum() >= 0.95, false


def test_a_range_without_ratings_may_have_any_share():
    alone = rate(np.array([1, 0, 0]), np.zeros(3, int), np.array([40]))
    beside = rate(np.array([1, 0, 0]), np.zeros(3, int), np.array([40, 10]))
    assert beside.low == pytest.approx(0.8 * alone.low)
    assert beside.high == pytest.approx(0.8 * alone.high + 0.2)
    assert (beside.share, beside.unrated) == pytest.approx((1 / 3, 0.2))
    assert alone.unrated == 0


def test_a_rate_of_one_range_ignores_the_others():
    verdicts, ranges = np.array([1, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 0, 1, 1])
    found = rate(verdicts, ranges, np.array([70, 0]))
    assert (found.share, found.pairs) == (0.25, 4)
    assert (found.low, found.high) == ends(exact(1, 4))


def test_unsure_ratings_widen_the_interval_to_both_ways_to_count_them():
    found = rate(np.array([1, np.nan, np.nan] + [0] * 17), np.zeros(20, int), np.array([500]))
    assert (found.low, found.high) == ends((exact(1, 20).low, exact(3, 20).high))
    assert (found.share, found.pairs, found.unsure) == (0.1, 20, 2)


def test_the_share_weighs_ranges_by_their_sizes():
    found = rate(np.array([1, 1, 0, 0]), np.array([0, 0, 1, 1]), np.array([10, 90]))
    assert found.share == pytest.approx(0.1)


def test_the_bound_of_in_batch_negatives_extends_the_last_range():
    verdicts, ranges = np.repeat([1, 0], [5, 45]), np.repeat([0, 1], [5, 45])
    bound = in_batch_bound(verdicts, ranges, np.array([100, 900]), 1e9)
    assert bound == pytest.approx(exact(0, 45, 0.9).high, rel=1e-3)


def test_thresholds_share_the_error_of_all():
    scores = np.linspace(0, 1, 1_000)
    rows = np.arange(5, 1_000, 10)
    verdicts = (scores[rows] > 0.85) * (np.arange(100) % 3 > 0).astype(float)
    found = thresholds(scores, np.zeros(1_000, int), rows, verdicts, [0.5, 0.9])
    for each in found:
        above = scores[rows] >= each.value
        hits = int(verdicts[above].sum())
        missed = int(verdicts.sum()) - hits
        rest = int((~above).sum())
        precision = exact(hits, int(above.sum()), 1 - 0.05 / 6)
        recall = exact(hits, int(verdicts.sum()), 1 - 0.05 / 6)
        assert each.left[:3] == ends((missed / rest, *exact(missed, rest, 1 - 0.05 / 6)))
        assert each.removed == pytest.approx(1 - each.value)
        assert each.precision[:3] == ends((hits / above.sum(), *precision))
        assert each.recall[:3] == ends((hits / verdicts.sum(), *recall))


def test_unsure_ratings_count_against_and_for_recall():
    scores, verdicts = np.arange(8.0), np.array([0, np.nan, 1, 0, 0, 1, 1, np.nan])
    (found,) = thresholds(scores, np.zeros(8, int), np.arange(8), verdicts, [4])
    level = 1 - 0.05 / 3
    low, high = exact(2, 4, level).low, exact(3, 4, level).high
    assert found.recall[:3] == ends((0.625, low, high))
    assert (found.recall.pairs, found.recall.unsure) == (5, 2)


def test_recall_without_false_negatives_is_unknown():
    (found,) = thresholds(np.arange(9.0), np.zeros(9, int), np.arange(9), np.zeros(9), [4])
    assert np.isnan(found.recall.share)
    assert (found.recall.low, found.recall.high) == (0, 1)


def test_a_judge_who_is_right_narrows_the_interval_and_a_useless_one_changes_nothing():
    verdicts = np.repeat([1.0, 0.0], [40, 80])
    ranges, sizes = np.zeros(120, int), np.array([30_000])
    alone = rate(verdicts, ranges, sizes)
    right = rate_with_judge(verdicts, verdicts == 1, ranges, sizes, np.array([[20_000, 10_000]]))
    assert right.high - right.low < 0.35 * (alone.high - alone.low)
    assert right.share == pytest.approx(1 / 3)
    few = rate_with_judge(verdicts, verdicts == 1, ranges, sizes, np.array([[100, 0]]))
    assert few == alone
    never = rate_with_judge(verdicts, verdicts == 2, ranges, sizes, np.array([[30_000, 0]]))
    assert never == alone


def test_a_small_sample_of_the_judge_widens_the_interval():
    verdicts = np.repeat([1.0, 0.0], [40, 80])
    widths = [
        np.diff(
            rate_with_judge(verdicts, verdicts == 1, np.zeros(120, int), np.array([10**9]), judged)[
                1:3
            ]
        ).item()
        for judged in (np.array([[200, 100]]), np.array([[200_000, 100_000]]))
    ]
    assert 2 * 1.9 * (2 / 9 / 300) ** 0.5 < widths[0] < widths[1] + 2 * 2 * (2 / 9 / 300) ** 0.5


@pytest.fixture(scope="module")
def audits():
    """A table whose anchors differ much in their share of false negatives, and 300 samples."""
    rng = np.random.default_rng(0)
    anchors = np.repeat(np.arange(400), 20)
    scores = 3 * rng.normal(size=400).repeat(20) - np.tile(np.arange(20), 400) / 4
    similarity = scores / 30 + rng.normal(size=8_000) / 10
    ranges = ranges_of(np.tile(np.arange(1, 21), 400), (5, 20))
    frame = Frame(anchors, ranges, similarity)
    return scores + rng.logistic(size=8_000) > 0, similarity, ranges, frame.drawn(60, rng, 300)


def test_audits_cover_the_rate(audits):
    false, _, ranges, drawn = audits
    sizes = np.bincount(ranges)
    found = np.array([rate(false[rows], ranges[rows], sizes)[1:3] for rows in drawn])
    assert ((found[:, 0] <= false.mean()) & (false.mean() <= found[:, 1])).mean() >= 0.95


def test_audits_cover_the_rate_with_a_judge(audits):
    false, _, ranges, drawn = audits
    rng = np.random.default_rng(1)
    opinions = np.where(false, rng.random(8_000) < 0.8, rng.random(8_000) > 0.9)
    hits, widths = [], []
    for rows in drawn:
        more = rng.choice(8_000, 1_000)
        judged = np.bincount(2 * ranges[more] + opinions[more], minlength=4).reshape(2, 2)
        sample = false[rows].astype(float), opinions[rows], ranges[rows], np.bincount(ranges)
        found, alone = rate_with_judge(*sample, judged), rate(sample[0], *sample[2:])
        hits.append(found.low <= false.mean() <= found.high)
        widths.append((found.high - found.low) / (alone.high - alone.low))
    assert np.mean(hits) >= 0.94
    assert np.median(widths) < 0.9


def test_audits_cover_all_thresholds_together(audits):
    false, similarity, ranges, drawn = audits
    values = np.quantile(similarity, [0.5, 0.75, 0.9])
    removed = similarity >= values[:, None]
    hits = (removed & false).sum(1)
    truth = np.stack([hits / removed.sum(1), hits / false.sum()], axis=1).ravel()
    covered = []
    for rows in drawn[:150]:
        found = thresholds(similarity, ranges, rows, false[rows], values)
        pairs = [each for one in found for each in (one.precision, one.recall)]
        covered.append(
            all(low <= true <= high for true, (_, low, high, *_) in zip(truth, pairs, strict=True))
        )
    assert np.mean(covered) >= 0.95
