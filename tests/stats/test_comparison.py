"""Comparisons over seeds match scipy, statsmodels, enumeration and worked examples."""

import gc
import itertools
import re
import subprocess
import sys
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import tt_solve_power
from statsmodels.stats.weightstats import ttost_paired

from trueneg.report.findings import answer, headroom_sentence
from trueneg.report.tables.building import Named, comparisons
from trueneg.stats.candidates import select
from trueneg.stats.comparison import (
    detectable_multiplier,
    headroom,
    holm,
    means,
    outcome,
    paired_differences,
    primary_contrast,
    selected,
    signed_rank_p,
)
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import to_table, typed

MEASURED = Measurement("knn", "accuracy", "all")
TESTED = ["low", "high", "p", "p equivalence", "minimum detectable"]
OF_INTERVAL = ["low", "high", "minimum detectable"]


def rows_of(values, dataset="digits", split="test", **changed):
    """Return tidy rows from {objective: [value of seed 0, 1, …]}; None marks a missing seed."""
    constant = {
        "study": "small",
        "dataset": dataset,
        "split": split,
        "variant": "{}",
        **MEASURED._asdict(),
        **changed,
    }
    return to_table(
        [
            {
                **constant,
                "objective": objective,
                "seed": seed,
                "run": f"{objective}-{seed}",
                "value": value,
            }
            for objective, of_seeds in values.items()
            for seed, value in enumerate(of_seeds)
            if value is not None
        ]
    )


accuracies = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12)


@given(accuracies)
@settings(deadline=None, max_examples=50)
def test_paired_differences_match_scipy_and_statsmodels(pairs):
    cl, dcl = map(list, zip(*pairs, strict=True))
    differences = np.subtract(dcl, cl)
    assume(min(np.std(cl), np.std(dcl), differences.std()) > 1e-4)
    found = paired_differences(rows_of({"cl": cl, "dcl": dcl}), "cl", margins={MEASURED: 0.2}).iloc[
        0
    ]
    expected = stats.ttest_rel(dcl, cl)
    interval = expected.confidence_interval(0.95)
    assert found["seeds"] == len(pairs)
    np.testing.assert_allclose([found["low"], found["high"]], interval, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(found["p"], expected.pvalue, rtol=1e-6, atol=1e-12)
    assert found["mean"] - found["baseline mean"] == pytest.approx(found["difference"], abs=1e-12)
    np.testing.assert_allclose(
        found["p equivalence"], ttost_paired(np.array(dcl), np.array(cl), -0.2, 0.2)[0], rtol=1e-6
    )
    # that of two pairs is always ±1
    correlation = stats.pearsonr(cl, dcl).statistic if len(pairs) > 2 else np.nan
    np.testing.assert_allclose(found["correlation"], correlation, atol=1e-8)


def test_the_minimum_detectable_difference_matches_statsmodels():
    for seeds in (3, 4, 5, 6, 8, 12, 24, 100):
        expected = (
            tt_solve_power(nobs=seeds, alpha=0.05, power=0.8, alternative="two-sided") * seeds**0.5
        )
        assert detectable_multiplier(seeds) == pytest.approx(expected, rel=1e-5)
    for seeds in (5, 6, 8, 12, 24):  # with four, statsmodels finds a value of power 0.65
        of_seven = tt_solve_power(nobs=seeds, alpha=0.05 / 7, power=0.8) * seeds**0.5
        assert detectable_multiplier(seeds, comparisons=7) == pytest.approx(of_seven, rel=1e-5)
    assert np.isnan([detectable_multiplier(0), detectable_multiplier(1)]).all()
    gains = [0.01, 0.03, 0.02, 0.05, 0.0]
    found = paired_differences(
        rows_of({"cl": [0.5] * 5, "dcl": [0.5 + gain for gain in gains]}), "cl"
    ).iloc[0]
    assert found["minimum detectable"] == pytest.approx(
        3.7611 * np.std(gains, ddof=1) / 5**0.5, rel=1e-4
    )


def test_only_seeds_that_both_have_are_paired():
    rows = rows_of({"cl": [0.5, 0.6, None, 0.9], "dcl": [0.6, None, 0.1, 0.9]})
    found = paired_differences(rows, "cl").iloc[0]
    assert (found["seeds"], found["mean"], found["baseline mean"]) == (2, 0.75, 0.7)
    assert found["difference"] == pytest.approx(0.05)


def test_measurements_are_never_mixed():
    first, second = (
        rows_of({"cl": [0.1, 0.2], "dcl": [0.2, 0.3]}),
        rows_of({"cl": [0.5, 0.6], "dcl": [0.4, 0.5]}),
    )
    for column in (
        "study",
        "dataset",
        "split",
        "task",
        "metric",
        "labels",
        "fraction",
        "direction",
        "k",
        "group",
    ):
        other = typed(second.assign(**{column: 5 if column in ("fraction", "k") else "other"}))
        found = paired_differences(pd.concat([first, other]), "cl")
        assert found["difference"].round(9).tolist() == [0.1, -0.1]
        assert found[column].nunique(dropna=False) == 2


@pytest.mark.parametrize(
    "values", [{"cl": [0.5], "dcl": [0.6]}, {"cl": [0.5, None], "dcl": [None, 0.6]}]
)
def test_without_two_pairs_there_is_no_interval(values):
    found = paired_differences(rows_of(values), "cl").iloc[0]
    assert found["seeds"] < 2
    assert found[[*TESTED, "standard deviation", "correlation"]].isna().all()


@pytest.mark.parametrize("gain", [0.0, 0.2])
@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_equal_differences_in_all_seeds_give_no_interval_and_exact_sign_tests(gain, precision):
    cl = precision([0.1, 0.3, 0.7])
    dcl = cl + precision(gain)
    assert gain == 0 or np.unique(np.float64(dcl) - cl).size > 1  # they differ in their last bits
    found = paired_differences(rows_of({"cl": cl, "dcl": dcl}), "cl", margins={MEASURED: 0.5}).iloc[
        0
    ]
    assert found["difference"] == pytest.approx(gain, abs=1e-7)
    assert found["standard deviation"] == 0
    assert found[OF_INTERVAL].isna().all()
    assert found["correlation"] == pytest.approx(1)
    # binomial tests of three signs
    two_sided, one_sided = (
        stats.binomtest(3, 3, alternative=side).pvalue for side in ("two-sided", "greater")
    )
    assert found["p"] == found["p signed-rank"] == (1 if gain == 0 else two_sided)
    assert found["p equivalence"] == one_sided
    assert outcome(found["difference"], found["p"], found["p equivalence"]) == "undecided"


@pytest.mark.parametrize(
    ("gain", "margin", "expected"),
    [
        (0.01, None, "better"),
        (-0.01, None, "worse"),
        (0.01, 0.02, "better by less than the margin"),
        (0.0, 0.02, "equivalent"),
        (0.0, None, "undecided"),
    ],
)
def test_six_equal_differences_are_decided(gain, margin, expected):
    cl = np.array([0.5, 0.52, 0.54, 0.56, 0.58, 0.6])
    row = primary_contrast(
        rows_of({"cl": cl, "dcl": cl + gain}), "dcl", "cl", MEASURED, "digits", margin
    )
    assert row["outcome"] == expected


def test_equivalence_is_tested_only_within_a_margin_below_what_the_oracle_was_shown_to_gain():
    cl = np.array([0.5, 0.52, 0.54, 0.56])
    gains = np.array([0.018, 0.022, 0.021, 0.019])
    values = {"cl": cl, "dcl": cl + 1e-4 * np.array([4, -4, 3, -3]), "oracle": cl + gains}
    least = stats.ttest_1samp(gains, 0).confidence_interval(0.95).low
    for margin, treatment, expected in (
        (0.99 * least, "dcl", "equivalent"),
        (1.01 * least, "dcl", "undecided"),  # although the gain itself is larger
        (0.04, "oracle", "better by less than the margin"),  # its own gain
    ):
        row = primary_contrast(
            rows_of(values), treatment, "cl", MEASURED, "digits", margin, "oracle"
        )
        assert row["outcome"] == expected
        assert row["margin"] == margin


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ([0.0] * 4, "undecided"),  # no false negatives
        ([0.001] * 4, "undecided"),
        ([0.02] * 4, "equivalent"),
        ([0.02], "undecided"),
        (None, "equivalent"),  # no oracle
    ],
)
def test_a_gain_of_the_oracle_without_an_interval_must_exceed_the_margin_too(gains, expected):
    cl = np.array([0.5, 0.52, 0.54, 0.56])
    values = {"cl": cl, "dcl": cl + 1e-4 * np.array([4, -4, 3, -3])}
    oracle = None if gains is None else "oracle"
    if gains is not None:
        values["oracle"] = cl[: len(gains)] + gains
    row = primary_contrast(rows_of(values), "dcl", "cl", MEASURED, "digits", 0.01, oracle)
    assert row["outcome"] == expected


def test_the_oracles_gain_is_that_over_the_uncorrected_baseline():
    cl = np.array([0.5, 0.52, 0.54, 0.56])
    same = cl + np.array([0.018, 0.022, 0.021, 0.019])  # CL at the oracle's temperature
    values = {"cl": cl, "same": same, "oracle": same + 1e-4 * np.array([4, -4, 3, -3])}
    for margin, expected in ((0.01, "equivalent"), (0.03, "undecided")):
        row = primary_contrast(
            rows_of(values),
            "oracle",
            "same",
            MEASURED,
            "digits",
            margin,
            "oracle",
            uncorrected=["cl"],
        )
        assert row["outcome"] == expected


def test_the_oracle_must_gain_over_the_baseline_at_its_own_temperature_too():
    cl = np.array([0.5, 0.52, 0.54, 0.56])
    noise = 1e-4 * np.array([4, -4, 3, -3])
    same = cl + 0.02 + noise  # CL at the oracle's temperature
    values = {"cl": cl, "same": same, "oracle": same + 0.02 - noise, "dcl": cl + noise}
    for over, margin, expected in (
        (["cl"], 0.03, "equivalent"),
        (["cl", "same"], 0.03, "undecided"),
        (["cl", "same"], 0.015, "equivalent"),
    ):
        row = primary_contrast(
            rows_of(values), "dcl", "cl", MEASURED, "digits", margin, "oracle", None, over
        )
        assert row["outcome"] == expected
    for same_scale, expected in ((None, "equivalent"), ("same", "undecided")):
        named = Named("digits", MEASURED, "dcl", (), "oracle", same=same_scale)
        table = comparisons(rows_of(values), "cl", [MEASURED], {MEASURED: 0.03}, named)
        assert table.set_index("contrast")["outcome"]["dcl − cl"] == expected


def test_differences_of_one_image_in_50_000_are_not_rounded_away():
    cl = np.array([43_210, 43_215, 43_208]) / 50_000
    found = paired_differences(
        rows_of({"cl": cl, "dcl": cl + np.array([1, 1, 2]) / 50_000}), "cl"
    ).iloc[0]
    assert found["p"] == pytest.approx(stats.ttest_1samp([1, 1, 2], 0).pvalue)


def test_equal_values_in_all_seeds_give_no_interval_and_no_correlation():
    rows = rows_of({"cl": [0.1 + 0.2, 0.3, 0.3], "dcl": [0.4, 0.5, 0.7]})
    flat = means(rows).set_index("objective").loc["cl"]
    assert flat["standard deviation"] == 0
    assert flat[["low", "high"]].isna().all()
    assert np.isnan(paired_differences(rows, "cl").iloc[0]["correlation"])


def test_only_measurements_with_a_margin_are_tested_for_equivalence():
    values = {"cl": [0.5, 0.6, 0.7], "dcl": [0.51, 0.6, 0.7]}
    rows = pd.concat([rows_of(values), rows_of(values, group="rare")])
    found = paired_differences(rows, "cl", margins={MEASURED: 0.05}).set_index("group")[
        ["margin", "p equivalence"]
    ]
    assert found.loc["rare"].isna().all()
    assert found.loc[found.index.isna()].notna().all(axis=None)


def test_means_have_scipys_t_interval():
    values = [0.81, 0.84, 0.79, 0.9]
    found = means(rows_of({"cl": values})).iloc[0]
    expected = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    np.testing.assert_allclose([found["low"], found["high"]], expected)
    assert means(rows_of({"cl": [0.5]}))[["low", "high"]].isna().all(axis=None)


@given(st.lists(st.integers(-9, 9), min_size=1, max_size=9))
@settings(deadline=None, max_examples=100)
def test_the_signed_rank_test_counts_every_sign_pattern_and_matches_scipy_without_ties(differences):
    nonzero = [d for d in differences if d]
    ranks = stats.rankdata(np.abs(nonzero))
    signs = itertools.product([0, 1], repeat=len(ranks))
    sums = [
        sum(rank for rank, positive in zip(ranks, pattern, strict=True) if positive)
        for pattern in signs
    ]
    observed = sum(rank for rank, d in zip(ranks, nonzero, strict=True) if d > 0)
    tail = min(np.mean([s <= observed for s in sums]), np.mean([s >= observed for s in sums]))
    # Like differences of accuracies, thirds tie only up to rounding.
    p = signed_rank_p([d / 3 + 0.1 - 0.1 for d in differences])
    assert p == pytest.approx(min(1, 2 * tail))
    if 1 < len(differences) == len(set(np.abs(nonzero))):
        assert p == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_holm_rejects_like_the_step_down_procedure_and_matches_statsmodels(p):
    level, rejected = 0.05, set()
    for step, place in enumerate(np.argsort(p, kind="stable")):
        if p[place] * (len(p) - step) >= level:
            break
        rejected.add(int(place))
    assert set(np.flatnonzero(holm(p) < level).tolist()) == rejected
    with patch.object(gc, "collect"):  # multipletests calls it each time
        np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1])


def test_holm_does_not_count_nan_p_values():
    np.testing.assert_allclose(holm([0.01, np.nan, 0.02]), [0.02, np.nan, 0.02])


def test_selection_reads_only_validation_rows_and_names_missing_variants():
    validation = variants_of({1: [0.5, 0.7], 2: [0.7, 0.5], 3: [0.1, 0.2]}, split="validation")
    test = variants_of({1: [0.1, 0.1], 2: [0.2, 0.2], 3: [0.9, 0.9]})
    candidates = {"a": ['{"x":1}', '{"x":2}', '{"x":3}'], "b": ["{}"]}
    both = pd.concat([test, validation])
    table = select(both, candidates, MEASURED)
    best = selected(both, table[table["chosen"]])
    assert best.groupby("objective")["variant"].agg(set).to_dict() == {
        "a": {'{"x":1}'},
        "b": {"{}"},
    }
    with pytest.raises(ValueError, match="validation"):
        select(test, candidates, MEASURED)
    with pytest.raises(ValueError, match=re.escape('{"x":4}')):
        select(validation, candidates | {"a": ['{"x":4}']}, MEASURED)


# Validation accuracies in percent of seed 0, 1, …, by candidate; None marks a missing seed.
DISTINCT_RULES = {
    '{"best":"median"}': [60, 60, 60, 10, 10],
    '{"best":"maximum"}': [99, 20, 20, 20, 20],
    '{"best":"mean"}': [80, 80, 50, 50, 50],
    '{"best":"minimum"}': [55, 55, 55, 55, 52],
    '{"best":"last"}': [10, 10, 10, 10, 90],
}
PERCENT = {
    ("digits", "a"): DISTINCT_RULES,
    ("digits", "b"): {'{"x":1}': [10, 20], '{"x":2}': [40, 60], '{"x":3}': [60, 40]},
    ("cifar10", "a"): {
        variant: [*values[::-1], None, 30] for variant, values in DISTINCT_RULES.items()
    },
    ("cifar10", "b"): {'{"x":1}': [10, 20, 60], '{"x":2}': [10, 30, 50], '{"x":3}': [30, 30, None]},
}


def best_mean(of_variants):
    """Return the first candidate with the largest mean over the shared seeds, the number of these
    seeds, and the mean.
    """
    seeds = [
        seed
        for seed, values in enumerate(zip(*of_variants.values(), strict=True))
        if None not in values
    ]
    best, best_total = None, None
    for variant, values in of_variants.items():
        total = sum(values[seed] for seed in seeds)
        if best is None or total > best_total:
            best, best_total = variant, total
    return best, len(seeds), best_total / len(seeds) / 100


def assert_best_means_are_selected(percent):
    """Select on shuffled rows whose values on the test split, and of another metric, favour the
    worst candidates.
    """
    shown = [
        rows_of(
            {objective: [value and sign * value / 100 for value in values]},
            dataset,
            variant=variant,
            **changed,
        )
        for (dataset, objective), of_variants in percent.items()
        for variant, values in of_variants.items()
        for sign, changed in (
            (1, {"split": "validation"}),
            (-1, {"split": "validation", "metric": "auc"}),
            (-1, {"split": "test"}),
        )
    ]
    rows = pd.concat(shown, ignore_index=True).sample(frac=1, random_state=0)
    candidates = {objective: list(of_variants) for (_, objective), of_variants in percent.items()}
    table = select(rows, candidates, MEASURED)
    found = table[table["chosen"]].set_index(["dataset", "objective"])
    assert found.index.is_unique
    assert set(found.index) == set(percent)
    for place, of_variants in percent.items():
        variant, seeds, mean = best_mean(of_variants)
        assert found.loc[place, ["variant", "seeds"]].tolist() == [variant, seeds]
        assert found.loc[place, "mean"] == pytest.approx(mean)


def test_the_best_mean_over_shared_seeds_is_selected_where_other_statistics_prefer_others():
    assert_best_means_are_selected(PERCENT)
    assert best_mean(DISTINCT_RULES)[0] == '{"best":"mean"}'
    rules = {"median": np.median, "maximum": max, "minimum": min, "last": lambda values: values[-1]}
    for name, rule in rules.items():
        assert (
            max(DISTINCT_RULES, key=lambda variant: rule(DISTINCT_RULES[variant]))
            == f'{{"best":"{name}"}}'
        )


@given(
    st.integers(1, 6).flatmap(
        lambda seeds: st.lists(
            st.lists(st.integers(1, 4), min_size=seeds, max_size=seeds), min_size=2
        )
    )
)
@settings(deadline=None, max_examples=30, derandomize=True)
def test_the_first_candidate_with_the_best_mean_is_selected(values):
    percent = {("digits", "a"): {f'{{"x":{x}}}': of_seeds for x, of_seeds in enumerate(values)}}
    assert_best_means_are_selected(percent)


def variants_of(values, split="test"):
    """Return rows of the variants of objective a, by the swept x, and of objective b."""
    parts = [rows_of({"a": own}, split=split, variant=f'{{"x":{x}}}') for x, own in values.items()]
    return pd.concat([*parts, rows_of({"b": [0.3, 0.3]}, split=split)])


def test_results_list_the_runs_behind_them():
    rows = rows_of({"cl": [0.5, 0.6, None], "dcl": [0.6, 0.7, 0.8]})
    assert means(rows).set_index("objective")["runs"].to_dict() == {
        "cl": "cl-0 cl-1",
        "dcl": "dcl-0 dcl-1 dcl-2",
    }
    found = paired_differences(rows, "cl").iloc[0]
    assert (found["runs"], found["baseline runs"]) == ("dcl-0 dcl-1 dcl-2", "cl-0 cl-1")


NEAR = {"cl": [0.80, 0.82, 0.78], "oracle": [0.83, 0.86, 0.81]}


@pytest.mark.parametrize(
    ("values", "chance", "label", "says"),
    [
        (NEAR, 0.1, "clear headroom", r"oracle − cl is \+3\.3 points.*80\.0 %.*10\.0 %"),
        (NEAR, 0.79, "not clearly above chance", r"\+3\.3 points.*80\.0 %.*79\.0 %"),
        (
            {**NEAR, "oracle": [0.81, 0.81, 0.79]},
            0.1,
            "no clear headroom",
            r"oracle − cl is \+0\.3 points",
        ),
        ({"cl": [0.8], "oracle": [0.9]}, 0.1, "unknown headroom", r"share 1 seed"),
        ({"cl": [0.80, 0.81, 0.79]}, 0.1, "unknown headroom", r"80\.0 %.*10\.0 %"),
        ({"cl": [0.80, 0.81, 0.79]}, 0.79, "not clearly above chance", r"80\.0 %.*79\.0 %"),
        ({"cl": [0.8]}, 0.1, "unknown headroom", r"cl has 1 seed"),
        (
            {"cl": [1.0, 1.0, 1.0], "oracle": [1.0, 1.0, 1.0]},
            0.1,
            "unknown headroom",
            r"cl reaches 100\.0 %, chance",
        ),
        (
            {**NEAR, "oracle": [0.82, 0.84, 0.80]},
            0.1,
            "unknown headroom",
            r"oracle − cl is \+2\.0 points;",
        ),
    ],
)
def test_headroom_is_the_gain_of_the_oracle_over_a_baseline_above_chance(
    values, chance, label, says
):
    oracle = "oracle" if "oracle" in values else None
    found = headroom(rows_of(values), "cl", oracle, chance, MEASURED)
    assert found["label"].tolist() == [label]
    assert found["difference"].isna().all() == (oracle is None)
    assert re.search(says, headroom_sentence(found.iloc[0], "accuracy", "cl", oracle))


def test_headroom_of_ranks_is_the_decrease_by_the_oracle():
    ranks = {"cl": [20.0, 22.0, 21.0], "oracle": [15.0, 18.0, 16.5]}
    found = [
        headroom(rows_of(ranks), "cl", "oracle", chance, MEASURED, False)["label"].item()
        for chance in (50, 10)
    ]
    assert found == ["clear headroom", "not clearly above chance"]
    assert (
        headroom(rows_of(ranks), "oracle", "cl", 50, MEASURED, False)["label"].item()
        == "no clear headroom"
    )


def test_every_data_set_has_its_own_headroom():
    rows = pd.concat(
        [rows_of(NEAR, "r=0.1"), rows_of({**NEAR, "oracle": [0.7, 0.9, 0.8]}, "r=0.5")]
    )
    found = headroom(rows, "cl", "oracle", 0.1, MEASURED).set_index("dataset")["label"].to_dict()
    assert found == {"r=0.1": "clear headroom", "r=0.5": "no clear headroom"}


@pytest.mark.parametrize(
    ("gains", "margin", "expected", "says"),
    [
        ([0.02, 0.03, 0.025], None, "better", "dcl gains 2.5 points"),
        ([-0.02, -0.03, -0.025], 0.01, "worse", "dcl loses 2.5 points"),
        ([0.002, 0.003, 0.0025], 0.01, "better by less than the margin", "margin of 1.0 points"),
        ([0.002, -0.003, 0.0], 0.01, "equivalent", "equivalent within 1.0 points"),
        ([0.03, -0.03, 0.0], 0.01, "undecided", "9.8 points would have been detected"),
        ([0.002, -0.003, 0.0], None, "undecided", "published difference is +2.0 points"),
        ([0.2, 0.2, 0.2], 0.01, "undecided", "same in each of 3 seeds"),
        ([0.0, 0.0, 0.0], 0.01, "undecided", "same in each of 3 seeds"),
        ([0.03], 0.01, "undecided", "they share 1 seed"),
    ],
)
def test_the_primary_contrast_has_one_of_three_outcomes_and_a_sentence(
    gains, margin, expected, says
):
    cl = [0.5 + seed / 50 for seed in range(len(gains))]
    rows = rows_of({"cl": cl, "dcl": [a + b for a, b in zip(cl, gains, strict=True)]})
    found = primary_contrast(rows, "dcl", "cl", MEASURED, "digits", margin)
    assert found["outcome"] == expected
    assert says in " ".join(answer(found, "dcl", "cl", published=0.02))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda rows: pd.concat([rows, rows]), "same measurement twice"),
        (lambda rows: rows.assign(value=np.nan), "not finite"),
        (lambda rows: rows.assign(objective="dcl"), "no objective cl; found dcl"),
    ],
)
def test_broken_rows_raise_an_error(broken, message):
    with pytest.raises(ValueError, match=message):
        paired_differences(broken(rows_of({"cl": [0.1, 0.2]})), "cl")


def test_a_missing_measurement_raises_an_error_with_the_available_ones():
    with pytest.raises(ValueError, match="no labels 'some'; found all"):
        headroom(rows_of(NEAR), "cl", "oracle", 0.1, MEASURED._replace(labels="some"))


@pytest.mark.parametrize("absent", ["cl", "oracle"])
def test_a_data_set_without_the_baseline_or_the_oracle_raises_an_error(absent):
    kept = {name: values for name, values in NEAR.items() if name != absent}
    rows = pd.concat([rows_of(NEAR, "r=0.1"), rows_of(kept, "r=0.5")])
    with pytest.raises(ValueError, match=rf"rows of r=0\.5 contain no objective {absent}"):
        headroom(rows, "cl", "oracle", 0.1, MEASURED)


def test_comparing_and_reporting_need_no_torch():
    modules = [
        "trueneg.stats.comparison",
        *(f"trueneg.report.{name}" for name in ("registry", "plots", "tables", "page", "build")),
    ]
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
