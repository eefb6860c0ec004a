"""What is false among the texts of a file without any model, beside plain loops over rows."""

import json

import numpy as np
import pandas as pd
import pytest
from pandas import DataFrame, Series

from trueneg.data.texts.text_files import source_of_rows
from trueneg.data.texts.text_rows import (
    ANCHOR,
    NEGATIVE,
    POSITIVE,
    REPEATED,
    about_certain,
    cells_of_source,
    certain,
    false_in_batch,
    known_pairs,
    row_codes,
    text_cells,
)
from trueneg.text.cleaning import normalised

ROLES = {"query": ANCHOR, "pos": POSITIVE, "neg": NEGATIVE}


def cells_of(rows, labels=None):
    """Cells of rows of an anchor, its positives and its negatives."""
    listed = [
        [anchor, *(json.dumps(texts) if texts else "" for texts in others)]
        for anchor, *others in rows
    ]
    table = DataFrame(listed, columns=list(ROLES)[: len(listed[0])])
    roles = {name: ROLES[name] for name in table}
    return text_cells(table, roles, None if labels is None else Series(labels))


def drawn_rows(generator, with_positives):
    """Rows of few different texts, some of which are equal only when normalised."""
    texts = [*(f"text {number}" for number in range(7)), "Text 1!", "text  2 ."]
    count = generator.integers(3, 14)
    anchors = generator.choice(texts, count).tolist()
    sizes = generator.integers(1, 4, count) if with_positives else [0] * count
    return [
        (anchor, generator.choice(texts, size, replace=False).tolist())
        for anchor, size in zip(anchors, sizes, strict=True)
    ]


def share_by_loops(rows, labels):
    """The share of false negatives over all ordered pairs of two rows."""
    known = {}
    for anchor, positives in rows:
        for positive in map(normalised, [anchor, *positives]):
            known.setdefault(normalised(anchor), set()).add(positive)
            known.setdefault(positive, set()).add(normalised(anchor))
    shares = []
    for first, (anchor, _) in enumerate(rows):
        for second, (other, positives) in enumerate(rows):
            if first == second:
                continue
            texts = set(map(normalised, positives or [other]))
            one_label = labels[first] == labels[second] != ""
            is_known = [one_label or text in known[normalised(anchor)] for text in texts]
            shares.append(np.mean(is_known))
    return np.mean(shares)


@pytest.mark.parametrize("with_positives", [True, False])
@pytest.mark.parametrize("names", [[""], ["", "a", "b"]])
def test_the_share_in_a_batch_is_that_of_all_pairs_of_rows(with_positives, names):
    generator = np.random.default_rng(0)
    for _ in range(10):
        rows = drawn_rows(generator, with_positives)
        labels = generator.choice(names, len(rows)).tolist()
        share = false_in_batch(cells_of(rows, labels))
        assert share == pytest.approx(share_by_loops(rows, labels), abs=1e-12)


@pytest.mark.parametrize("positives", [3, 5, 6, 7])
def test_the_share_in_a_batch_is_exactly_zero_if_nothing_is_known(positives):
    rows = [
        (f"anchor {row}", [f"answer {row} {number}" for number in range(positives)])
        for row in range(500)
    ]
    assert str(false_in_batch(cells_of(rows))) == "0.0"


def test_texts_that_are_no_negatives_are_found_with_a_reason():
    rows = [
        ("Lost card", ["Block it"], ["block it!", "Top up", "TOP UP", "lost card?", "Wait"]),
        ("Top up?", ["Pay in"], ["Pay  out", "Lost card"]),
        ("lost card", ["Call us"], ["Block it", "Pay in"]),
        ("Pay in", ["By cash"], ["Top up?"]),
    ]
    cells = cells_of(rows)
    reasons = certain(cells, known_pairs(cells))
    found = list(zip(cells["row"], cells["text"], reasons, strict=True))
    assert [line for line in found if line[2]] == [
        (0, "block it!", "a positive of its row"),
        (0, "TOP UP", REPEATED),
        (0, "lost card?", "equals its anchor"),
        (2, "Block it", "a positive of its anchor, or the reverse, in another row"),
        (3, "Top up?", "a positive of its anchor, or the reverse, in another row"),
    ]


def test_the_texts_of_a_source_are_those_of_its_rows():
    rows = [
        ("Lost card", ["Block it", "Call us"], ["block it!", "Top up", "TOP UP", "lost card?"]),
        ("Top up?", ["Pay in"], ["Pay out", "Lost card"]),
        ("lost card", ["Call us"], []),
        ("Pay in", ["By cash"], ["Top up?"]),
    ]
    table = DataFrame(rows, columns=["text", "positives", "negatives"])
    source = source_of_rows({"source": "table"}, table.assign(split="", label=""), "")
    cells = cells_of_source(source, np.arange(len(rows)))
    expected = cells_of(rows)
    columns = ["row", "role", "text"]
    pd.testing.assert_frame_equal(
        cells.sort_values(columns, ignore_index=True)[columns],
        expected.sort_values(columns, ignore_index=True)[columns],
        check_dtype=False,
    )
    assert about_certain(cells) == about_certain(expected)
    assert "1 negative: repeats" in about_certain(cells)
    part = cells_of_source(source, np.array([3, 1]))
    assert part["text"].tolist() == [
        *("Pay in", "By cash", "Top up?"),
        *("Top up?", "Pay in", "Pay out", "Lost card"),
    ]


def test_rows_have_one_code_whatever_the_order_of_their_texts():
    rows = [
        ("a", ["b"], ["c", "d"]),
        ("A!", ["b"], ["d", "c"]),
        ("b", ["a"], ["c", "d"]),
        ("a", ["b", "c"], ["d"]),
        ("a", ["b"], ["c"]),
    ]
    codes = row_codes(cells_of(rows)).tolist()
    assert codes[0] == codes[1]
    assert len(set(codes)) == 4
    assert row_codes(cells_of(rows, list("xyzxx"))).nunique() == 5
