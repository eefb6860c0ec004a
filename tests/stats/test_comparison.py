"""Comparisons over seeds, against scipy, enumeration and numbers worked out by hand."""

import itertools
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from trueneg.report.answers import answer, verdict
from trueneg.stats.comparison import (
    gate,
    holm,
    means,
    paired_differences,
    primary_contrast,
    select,
    selected,
    signed_rank_p,
)
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import to_table, typed

MEASURED = Measurement("knn", "accuracy", "all")


def rows_of(values, dataset="digits", split="test", **changed):
    """Tidy rows from {objective: [value of seed 0, 1, …]}; None: that seed is missing."""
    constant = {"study": "small", "dataset": dataset, "split": split, "variant": "{}", **MEASURED._asdict(), **changed}
    return to_table(
        [
            {**constant, "objective": objective, "seed": seed, "run": f"{objective}-{seed}", "value": value}
            for objective, of_seeds in values.items()
            for seed, value in enumerate(of_seeds)
            if value is not None
        ]
    )


accuracies = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=2, max_size=12)


@given(accuracies)
@settings(deadline=None, max_examples=50)
def test_paired_interval_and_p_equal_scipys(pairs):
    cl, dcl = map(list, zip(*pairs, strict=True))
    differences = np.subtract(dcl, cl)
    if differences.std() < 1e-9:
        return
    found = paired_differences(rows_of({"cl": cl, "dcl": dcl}), "cl").iloc[0]
    expected = stats.ttest_rel(dcl, cl)
    interval = expected.confidence_interval(0.95)
    assert found["seeds"] == len(pairs)
    np.testing.assert_allclose([found["low"], found["high"]], interval, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(found["p"], expected.pvalue, rtol=1e-6, atol=1e-12)
    assert found["mean"] - found["baseline mean"] == pytest.approx(found["difference"], abs=1e-12)
    assert found["smallest detectable"] == pytest.approx(2.8 * differences.std(ddof=1) / len(pairs) ** 0.5)


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
    for column in ("study", "dataset", "split", "task", "metric", "labels", "fraction", "direction", "k", "group"):
        other = typed(second.assign(**{column: 5 if column in ("fraction", "k") else "other"}))
        found = paired_differences(pd.concat([first, other]), "cl")
        assert found["difference"].round(9).tolist() == [0.1, -0.1]
        assert found[column].nunique(dropna=False) == 2


@pytest.mark.parametrize("values", [{"cl": [0.5], "dcl": [0.6]}, {"cl": [0.5, None], "dcl": [None, 0.6]}])
def test_without_two_pairs_there_is_no_interval(values):
    found = paired_differences(rows_of(values), "cl").iloc[0]
    assert found["seeds"] < 2
    assert found[["low", "high", "p", "standard deviation", "smallest detectable"]].isna().all()


def test_identical_objectives_have_p_one():
    found = paired_differences(rows_of({"cl": [0.5, 0.6], "same": [0.5, 0.6]}), "cl").iloc[0]
    assert (found["difference"], found["p"], found["p signed-rank"]) == (0, 1, 1)


def test_means_have_scipys_t_interval():
    values = [0.81, 0.84, 0.79, 0.9]
    found = means(rows_of({"cl": values})).iloc[0]
    expected = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    np.testing.assert_allclose([found["low"], found["high"]], expected)
    assert means(rows_of({"cl": [0.5]}))[["low", "high"]].isna().all(axis=None)


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
@settings(deadline=None, max_examples=60)
def test_signed_rank_counts_every_sign_pattern(differences):
    nonzero = [d for d in differences if d]
    ranks = stats.rankdata(np.abs(nonzero))
    sums = [
        sum(r for r, plus in zip(ranks, signs, strict=True) if plus) for signs in itertools.product([0, 1], repeat=len(ranks))
    ]
    observed = sum(r for r, d in zip(ranks, nonzero, strict=True) if d > 0)
    tail = min(np.mean([s <= observed for s in sums]), np.mean([s >= observed for s in sums]))
    # Thirds are no binary fractions, so the ties exist only up to rounding, as with accuracies.
    assert signed_rank_p([d / 3 + 0.1 - 0.1 for d in differences]) == pytest.approx(min(1, 2 * tail))


@given(
    st.lists(
        st.floats(-1, 1).filter(lambda d: abs(d) > 1e-3),
        min_size=2,
        max_size=12,
        unique_by=lambda d: round(abs(d), 6),
    )
)
@settings(deadline=None, max_examples=40)
def test_signed_rank_without_ties_equals_scipys(differences):
    assert signed_rank_p(differences) == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
@settings(deadline=None, max_examples=60)
def test_holm_rejects_what_the_step_down_procedure_rejects(p):
    level, rejected = 0.05, set()
    for step, place in enumerate(np.argsort(p, kind="stable")):
        if p[place] * (len(p) - step) >= level:
            break
        rejected.add(int(place))
    assert set(np.flatnonzero(holm(p) < level).tolist()) == rejected
    assert (holm(p) >= p).all()


def test_holm_does_not_count_what_was_not_tested():
    np.testing.assert_allclose(holm([0.01, np.nan, 0.02]), [0.02, np.nan, 0.02])


def test_selection_reads_validation_alone_and_takes_the_first_of_equal_ones():
    validation = variants_of({1: [0.5, 0.7], 2: [0.7, 0.5], 3: [0.1, 0.2]}, split="validation")
    test = variants_of({1: [0.1, 0.1], 2: [0.2, 0.2], 3: [0.9, 0.9]})
    candidates = {"a": ['{"x":1}', '{"x":2}', '{"x":3}'], "b": ["{}"]}
    both = pd.concat([test, validation])
    found = select(both, candidates, MEASURED)
    assert selected(both, found).groupby("objective")["variant"].unique().map(list).to_dict() == {"a": ['{"x":1}'], "b": ["{}"]}
    found = found.set_index("objective")
    assert found["variant"].to_dict() == {"a": '{"x":1}', "b": "{}"}
    assert found["candidates"].to_dict() == {"a": 3, "b": 1}
    assert found.loc["a", "validation mean"] == pytest.approx(0.6)
    with pytest.raises(ValueError, match="validation"):
        select(test, candidates, MEASURED)
    with pytest.raises(ValueError, match=re.escape('{"x":4}')):
        select(validation, candidates | {"a": ['{"x":4}']}, MEASURED)


def test_a_single_variant_is_chosen_without_validation_rows():
    test = variants_of({1: [0.1, 0.2, 0.3]})
    found = select(test, {"a": ['{"x":1}'], "b": ["{}"]}, MEASURED).set_index("objective")
    assert found["variant"].to_dict() == {"a": '{"x":1}', "b": "{}"}
    assert found["candidates"].to_dict() == {"a": 1, "b": 1}
    assert found["seeds"].to_dict() == {"a": 3, "b": 2}
    assert found["validation mean"].isna().all()
    with pytest.raises(ValueError, match="variant of c"):
        select(test, {"c": ["{}"]}, MEASURED)


def variants_of(values, split="test"):
    """Rows of variants of a by the swept x, and of b."""
    parts = [rows_of({"a": own}, split=split, variant=f'{{"x":{x}}}') for x, own in values.items()]
    return pd.concat([*parts, rows_of({"b": [0.3, 0.3]}, split=split)])


def test_selection_compares_variants_on_the_same_seeds():
    rows = variants_of({1: [0.5, 0.5, 0.99], 2: [0.6, 0.6, None]}, split="validation")
    found = select(rows, {"a": ['{"x":1}', '{"x":2}']}, MEASURED).iloc[0]
    assert (found["variant"], found["seeds"]) == ('{"x":2}', 2)


def test_numbers_name_the_runs_that_they_were_made_from():
    rows = rows_of({"cl": [0.5, 0.6, None], "dcl": [0.6, 0.7, 0.8]})
    assert means(rows).set_index("objective")["runs"].to_dict() == {"cl": "cl-0 cl-1", "dcl": "dcl-0 dcl-1 dcl-2"}
    found = paired_differences(rows, "cl").iloc[0]
    assert (found["runs"], found["baseline runs"]) == ("dcl-0 dcl-1 dcl-2", "cl-0 cl-1")


NEAR = {"cl": [0.80, 0.82, 0.78], "oracle": [0.83, 0.86, 0.81]}


@pytest.mark.parametrize(
    ("values", "chance", "passed", "says"),
    [
        (NEAR, 0.1, True, r"^informative: .*80\.0 %.*10\.0 %.*\+3\.3 points"),
        (
            NEAR,
            0.79,
            False,
            r"^uninformative at this size: cl reaches 80\.0 %.*not clearly better than chance",
        ),
        (
            {**NEAR, "oracle": [0.81, 0.81, 0.79]},
            0.1,
            False,
            r"^uninformative at this size: oracle − cl is \+0\.3 points",
        ),
        ({"cl": [0.8], "oracle": [0.9]}, 0.1, False, r"^uninformative at this size: .* share 1 seed"),
    ],
)
def test_gate_asks_for_more_than_chance_and_an_oracle_that_gains(values, chance, passed, says):
    found = gate(rows_of(values), "cl", "oracle", chance, MEASURED)
    assert found["passed"].tolist() == [passed]
    assert re.search(says, verdict(found.iloc[0], "accuracy", "cl", "oracle"))


@pytest.mark.parametrize(
    ("values", "chance", "passed", "says"),
    [
        ([0.80, 0.81, 0.79], 0.1, True, r"^above chance: cl reaches 80\.0 %.*chance is 10\.0 %; .* not known here"),
        ([0.80, 0.81, 0.79], 0.79, False, r"^uninformative at this size: cl reaches 80\.0 %.*not clearly better than chance"),
        ([0.8], 0.1, False, r"^uninformative at this size: cl has 1 seed, but at least 2 are needed"),
    ],
)
def test_without_an_oracle_the_gate_asks_for_more_than_chance_alone(values, chance, passed, says):
    found = gate(rows_of({"cl": values}), "cl", None, chance, MEASURED)
    assert found["passed"].tolist() == [passed]
    assert found["difference"].isna().all()
    assert re.search(says, verdict(found.iloc[0], "accuracy", "cl", None))


def test_gate_judges_each_data_set_by_itself():
    rows = pd.concat([rows_of(NEAR, "r=0.1"), rows_of({**NEAR, "oracle": [0.7, 0.9, 0.8]}, "r=0.5")])
    assert gate(rows, "cl", "oracle", 0.1, MEASURED).set_index("dataset")["passed"].to_dict() == {
        "r=0.1": True,
        "r=0.5": False,
    }


@pytest.mark.parametrize(
    ("gains", "expected", "conclusion", "says"),
    [
        ([0.02, 0.03, 0.025], 0.01, "better", "dcl is better than cl: +2.5 points"),
        ([-0.02, -0.03, -0.025], 0.01, "worse", "dcl is worse than cl: −2.5 points"),
        ([0.03, -0.03, 0.0], 0.01, "cannot tell", "the expected difference is 1.0 points"),
        ([0.003, -0.003, 0.0], 0.01, "no difference seen", "0.5 points"),
        ([0.03, -0.03, 0.0], None, "no difference seen", "4.8 points"),
        ([0.03], 0.01, "cannot tell", "they share 1 seed"),
    ],
)
def test_primary_contrast_answers_in_a_sentence(gains, expected, conclusion, says):
    cl = [0.8 + seed / 50 for seed in range(len(gains))]
    rows = rows_of({"cl": cl, "dcl": [a + b for a, b in zip(cl, gains, strict=True)]})
    found = primary_contrast(rows, "dcl", "cl", MEASURED, "digits", expected=expected)
    assert found["conclusion"] == conclusion
    assert says in answer(found, "dcl", "cl", expected)


def test_a_failed_gate_leaves_no_ranking():
    rows = rows_of({"cl": [0.8, 0.81, 0.82], "dcl": [0.85, 0.86, 0.88], "oracle": [0.8, 0.8, 0.83]})
    failed = gate(rows, "cl", "oracle", 0.1, MEASURED)
    found = primary_contrast(rows, "dcl", "cl", MEASURED, "digits", gate=failed)
    assert found["conclusion"] == "uninformative"
    assert "better" not in answer(found, "dcl", "cl")


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (lambda rows: pd.concat([rows, rows]), "same measurement twice"),
        (lambda rows: rows.assign(value=np.nan), "not finite"),
        (lambda rows: rows.assign(objective="dcl"), "no objective cl; found dcl"),
    ],
)
def test_broken_rows_are_refused_in_words(broken, says):
    with pytest.raises(ValueError, match=says):
        paired_differences(broken(rows_of({"cl": [0.1, 0.2]})), "cl")


def test_a_measurement_that_is_not_there_is_named_with_what_is():
    with pytest.raises(ValueError, match="no labels 'some'; found all"):
        gate(rows_of(NEAR), "cl", "oracle", 0.1, MEASURED._replace(labels="some"))


@pytest.mark.parametrize("absent", ["cl", "oracle"])
def test_a_data_set_without_the_baseline_or_the_oracle_has_no_gate(absent):
    kept = {name: values for name, values in NEAR.items() if name != absent}
    rows = pd.concat([rows_of(NEAR, "r=0.1"), rows_of(kept, "r=0.5")])
    with pytest.raises(ValueError, match=rf"rows of r=0\.5 contain no objective {absent}"):
        gate(rows, "cl", "oracle", 0.1, MEASURED)


def test_comparing_and_reporting_need_no_torch():
    modules = [
        "trueneg.stats.comparison",
        *(f"trueneg.report.{name}" for name in ("catalogue", "plots", "tables", "page", "build")),
    ]
    code = f"import sys, {', '.join(modules)}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
