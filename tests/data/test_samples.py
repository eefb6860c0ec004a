"""The table of samples: what two splits must not share, for any kind of source."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trueneg.data.samples import BANKS, SPLITS, Samples, Subset, refuse_leakage
from trueneg.errors import UserError


def source_of(groups, count=12, restricted=False):
    split, label = np.full(count, ""), np.arange(count)
    return SimpleNamespace(samples=Samples("made up", "abc", split, label, groups, restricted))


def subset_of(**parts):
    positions = {name: np.asarray(index, np.int64) for name, index in parts.items()}
    return Subset(0, "abc", **({"train": np.arange(3), "test": np.arange(3, 5)} | positions))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=12, max_size=12), st.data()
)
def test_two_splits_that_share_a_group_are_refused(contents, data):
    split_of = data.draw(st.lists(st.sampled_from(SPLITS), min_size=12, max_size=12))
    parts = {name: [i for i in range(12) if split_of[i] == name] for name in SPLITS}
    held = [{number for i in parts[name] for number in contents[i]} for name in SPLITS]
    leaks = any(held[a] & held[b] for a, b in ((0, 1), (0, 2), (1, 2)))
    source, subset = source_of({"texts": np.array(contents)}), subset_of(**parts)
    if leaks:
        with pytest.raises(UserError, match=r"seed 0 has \d+ texts in both"):
            refuse_leakage(source, subset)
    else:
        refuse_leakage(source, subset)


def test_every_kind_of_group_is_checked():
    owners = {"patients": np.arange(12), "reports": np.array(["a"] * 4 + ["b"] * 8)}
    with pytest.raises(UserError, match="1 reports, such as a, in both train and test"):
        refuse_leakage(source_of(owners), subset_of())
    with pytest.raises(UserError) as error:
        refuse_leakage(source_of(owners, restricted=True), subset_of())
    assert "such as" not in str(error.value)
    refuse_leakage(source_of({}), subset_of(validation=[0]))


def test_banks_share_no_label():
    for first, second in ((0, 1), (0, 2), (1, 2)):
        parts = {BANKS[first]: [7, 8], BANKS[second]: [8, 9]}
        with pytest.raises(UserError, match=f"1 labels in both {BANKS[first]} and {BANKS[second]}"):
            refuse_leakage(source_of({}), subset_of(**parts))


def test_a_subset_of_another_source_is_refused():
    subset = dataclasses.replace(subset_of(), source_checksum="def")
    with pytest.raises(UserError, match="a different version of source made up"):
        refuse_leakage(source_of({}), subset)
