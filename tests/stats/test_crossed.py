"""Intervals over runs and samples cover the mean of data whose variance is known."""

import numpy as np
import pytest
from pandas import DataFrame
from scipy import stats

from trueneg.evaluation.pairs.retrieval import of_first_image
from trueneg.stats.crossed import crossed_comparisons, crossed_interval


def drawn(rng, runs, samples, deviations, size=1):
    """Differences (runs, samples · size) around 0: of runs, of clusters of `size` samples, and of
    both."""
    of_run, of_cluster, of_both = deviations
    effects = of_run * rng.normal(size=(runs, 1)) + of_cluster * rng.normal(size=samples)
    return np.repeat(effects, size, 1) + of_both * rng.normal(size=(runs, samples * size))


@pytest.mark.parametrize(
    "deviations", [(1, 0, 10), (0, 10, 10), (1, 10, 10), (2, 5, 5)], ids=lambda sizes: str(sizes)
)
@pytest.mark.parametrize(("runs", "samples", "size"), [(8, 120, 1), (8, 40, 3)])
def test_the_interval_covers_the_mean_in_95_of_100_experiments(runs, samples, size, deviations):
    rng = np.random.default_rng(7)
    clusters = [np.repeat(np.arange(samples), size)] * runs
    experiments = 800
    covered = 0
    for _ in range(experiments):
        found = crossed_interval(list(drawn(rng, runs, samples, deviations, size)), clusters)
        covered += found.ends()[0] <= 0 <= found.ends()[1]
    # the standard error of a share in 800 experiments is 0.8 points
    assert 0.935 - 0.008 <= covered / experiments <= 0.965 + 0.008


def test_the_interval_covers_the_mean_over_texts_of_which_images_have_several():
    rng = np.random.default_rng(9)
    covered = 0
    for _ in range(800):
        texts = rng.integers(1, 6, 60)
        image = np.repeat(np.arange(60), texts)
        effects = rng.normal(size=60)[image] + 0.1 * rng.normal(size=(8, 1))
        values = effects + rng.normal(size=(8, len(image)))
        relevant = image[:, None] == np.arange(60)
        of_images = [of_first_image(of_run, relevant) for of_run in values]
        found = crossed_interval(of_images, [np.arange(60)] * 8)
        assert found.difference == pytest.approx(values.mean())
        covered += found.ends()[0] <= 0 <= found.ends()[1]
    assert 0.935 - 0.008 <= covered / 800 <= 0.965 + 0.008


@pytest.mark.parametrize(
    "sizes",
    [[60] + [1] * 140, [150] + [1] * 50, [*(100 // np.arange(1, 101))], [20] * 5 + [2] * 50],
    ids=["three tenths", "three quarters", "Zipf", "two sizes"],
)
def test_clusters_of_unequal_sizes_are_covered(sizes):
    rng = np.random.default_rng(10)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    covered = 0
    for _ in range(800):
        effects = rng.normal(size=len(sizes))[cluster] + 0.07 * rng.normal(size=(8, 1))
        values = effects + rng.normal(size=(8, len(cluster)))
        found = crossed_interval(list(values), [cluster] * 8)
        covered += found.ends()[0] <= 0 <= found.ends()[1]
    assert 0.935 - 0.008 <= covered / 800 <= 0.975 + 0.008


def test_a_cluster_with_nearly_all_samples_leaves_one_degree_of_freedom():
    cluster = np.repeat(np.arange(3), [1000, 1, 1])
    values = np.array([1.0, -50.0, 49.0])[cluster]
    found = crossed_interval([values] * 2, [cluster] * 2)
    assert found.freedom == pytest.approx(1.0, abs=0.2)


def test_an_interval_over_runs_alone_covers_too_little():
    rng = np.random.default_rng(8)
    covered = {"runs": 0, "both": 0}
    for _ in range(400):
        values = drawn(rng, 8, 180, (1, 10, 10))
        found = crossed_interval(list(values), [np.arange(180)] * 8)
        covered["both"] += found.ends()[0] <= 0 <= found.ends()[1]
        low, high = stats.ttest_1samp(values.mean(1), 0).confidence_interval(0.95)
        covered["runs"] += low <= 0 <= high
    assert covered["runs"] < 0.9 * 400 < 0.92 * 400 < covered["both"]


def test_without_an_effect_of_samples_it_is_the_interval_over_runs():
    values = np.repeat(np.random.default_rng(0).normal(size=(6, 1)), 500, 1)
    found = crossed_interval(list(values), [np.arange(500)] * 6)
    expected = stats.ttest_1samp(values[:, 0], 0).confidence_interval(0.95)
    assert found.ends() == pytest.approx(expected, rel=1e-9)


def test_runs_may_have_different_samples_and_names_of_clusters():
    rng = np.random.default_rng(1)
    values = [rng.normal(size=size) for size in (5, 9)]
    names = [np.array(list("abcde")), np.array(list("abcdefghi"))]
    found = crossed_interval(values, names)
    assert found.difference == pytest.approx((values[0].mean() + values[1].mean()) / 2)
    assert found == crossed_interval(values, [np.arange(5), np.arange(9)])
    with pytest.raises(ValueError, match="1 runs and 5 clusters"):
        crossed_interval(values[:1], names[:1])


@pytest.mark.parametrize("step", [0.0, 1 / 7])  # differences of sevenths vary by rounding
@pytest.mark.parametrize(("gain", "p", "p_equivalence"), [(0.0, 1.0, 1 / 16), (0.5, 1 / 8, 0.5)])
def test_without_variation_the_tests_are_sign_tests_over_the_runs(gain, p, p_equivalence, step):
    rows = [
        {"objective": name, "seed": seed, "sample": sample, "cluster": sample}
        | {"value": 1.0 + step * sample + gain * (name == "Oracle")}
        for name in ("CL", "Oracle")
        for seed in range(4)
        for sample in range(20)
    ]
    _, found = crossed_comparisons(DataFrame(rows), margin=0.1).to_dict("records")
    assert (found["low"], found["high"]) == pytest.approx((gain, gain))
    assert (found["p"], found["p equivalence"]) == (p, p_equivalence)


def test_each_pair_of_objectives_is_compared_on_the_samples_that_they_share():
    rng = np.random.default_rng(2)
    rows = [
        {"objective": name, "seed": seed, "sample": sample, "cluster": sample // 2}
        | {"value": rng.normal() + (name == "Oracle")}
        for name in ("CL", "Oracle")
        for seed in range(4)
        for sample in range(seed, 30)
    ]
    table = crossed_comparisons(DataFrame(rows), margin=3.0)
    assert table[["objective", "baseline"]].to_numpy().tolist() == [
        ["CL", "Oracle"],
        ["Oracle", "CL"],
    ]
    values = DataFrame(rows).pivot(index=["seed", "sample"], columns="objective", values="value")
    gains = (values["Oracle"] - values["CL"]).reset_index(name="gain")
    of_seeds = [of_seed for _, of_seed in gains.groupby("seed")]
    expected = crossed_interval(
        [each["gain"].to_numpy() for each in of_seeds],
        [each["sample"].to_numpy() // 2 for each in of_seeds],
    )
    found = table.iloc[1]
    assert (found["low"], found["high"]) == pytest.approx(expected.ends())
    assert (found["clusters"], found["p"] < 0.05) == (15, found["low"] > 0)
    assert found["samples"] == 30
    low, high = expected.ends(0.9)
    assert (found["p equivalence"] < 0.05) == (low > -3 and high < 3)
