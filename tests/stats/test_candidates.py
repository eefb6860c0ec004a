"""Candidates of a selection: means and intervals over the seeds that all candidates share match
scipy; ties are marked.
"""

import numpy as np
import pytest
from scipy import stats

from tests.stats.test_comparison import MEASURED, variants_of
from trueneg.stats.candidates import describe_candidates, select

CANDIDATES = {"a": ['{"x":1}', '{"x":2}', '{"x":3}']}


def described(values, split="validation"):
    return select(variants_of(values, split=split), CANDIDATES, MEASURED).set_index("variant")


def test_means_and_intervals_use_the_shared_seeds():
    values = {1: [0.5, 0.6, 0.7, 0.9], 2: [0.6, 0.8, 0.7, None], 3: [0.1, 0.2, 0.4, 0.9]}
    table = described(values)
    assert list(table.index) == CANDIDATES["a"]
    for x, of_seeds in values.items():
        shared = np.array(of_seeds[:3], dtype=float)
        low, high = stats.t.interval(0.95, 2, shared.mean(), stats.sem(shared))
        row = table.loc[f'{{"x":{x}}}']
        assert row[["mean", "low", "high"]].tolist() == pytest.approx([shared.mean(), low, high])
        assert row["seeds"] == 3
        assert row["runs"] == "a-0 a-1 a-2"
    assert table["chosen"].tolist() == [False, True, False]
    assert not table["tied"].any()


def test_means_that_differ_only_in_the_last_bit_are_tied():
    """0.1 + 0.2 and 0.3 + 0.0 differ in the last bit: the first candidate is chosen, the second is
    tied with it.
    """
    table = described({1: [0.3, 0.0], 2: [0.1, 0.2], 3: [0.1, 0.1]})
    assert table["chosen"].tolist() == [True, False, False]
    assert table["tied"].tolist() == [False, True, False]


def test_one_seed_has_no_interval():
    table = described({1: [0.3], 2: [0.4], 3: [0.2]})
    assert table["low"].isna().all()
    assert set(table["objective"]) == {"a"}


def test_nothing_is_selected_without_a_selection():
    rows = variants_of({1: [0.3], 2: [0.4], 3: [0.2]}, split="validation")
    table = describe_candidates(rows, CANDIDATES, MEASURED)
    assert table["chosen"].tolist() == [True, False, False]  # the first, which is compared
    assert not table["tied"].any()
    assert table["mean"].tolist() == [0.3, 0.4, 0.2]
