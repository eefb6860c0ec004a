"""What the cells of a column mean, compared with plain definitions."""

import itertools
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from trueneg.cli.columns import LOOKED_AT, kind_of
from trueneg.data.cells import MISSING, is_missing, lists_texts, split_names, texts_of
from trueneg.data.table_formats import INVISIBLE

SPACES = ["", " ", "\t", "\x1f", "\u00a0", *INVISIBLE]


def test_missing_values_are_the_known_words_in_any_case_among_spaces_and_invisible_characters():
    for before, after in itertools.product(SPACES, repeat=2):
        for word in MISSING:
            for spelling in (word, word.upper(), word.title()):
                assert is_missing(before + spelling + after)
        for word in ("0", "no", "n a", "na na", "?", "ná"):
            assert not is_missing(before + word + after)


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [
        ("{}.5", "{}.5", "number"),
        ("{}.5", "number {}", "id"),
        ("2024-01-{}", "2024-01-{}", "date"),
        ("2024-01-{}", "day {}", "id"),
        ('["a word and {}", "one more"]', '["a word and {}", "one more"]', "texts"),
    ],
)
def test_a_column_has_numbers_or_dates_only_if_its_last_value_is_one(first, last, kind):
    values = [first.format(number) for number in range(LOOKED_AT + 1)]
    assert kind_of("column", pd.Series([*values, last.format(LOOKED_AT + 1)])).name == kind


@pytest.mark.parametrize("texts", [["a dog's ball", "two dogs"], ["two dogs", "it's", "a dog"]])
def test_lists_are_read_as_python_writes_them(texts):
    """It quotes texts with an apostrophe otherwise."""
    assert texts_of(str(texts)) == texts
    assert texts_of(str(np.array(texts, dtype=object))) == texts


@pytest.mark.parametrize("texts", [["a", None], [float("nan"), "a"], ["a", 3]])
def test_a_list_of_other_things_is_not_read_as_a_text(texts):
    assert lists_texts(str(texts))
    assert texts_of(str(texts)) is None
    assert texts_of("[3] and [sic]") == ["[3] and [sic]"]


def test_a_long_list_that_cannot_be_read_is_given_up():
    """In another process, because there were 2^40 ways to try, which nothing interrupts."""
    cell = str(np.array([*(f"text {number}" for number in range(40)), None, "z"], dtype=object))
    program = "import sys; from trueneg.data.cells import texts_of; print(texts_of(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, cell], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "None\n"


def test_a_column_of_valid_rows_has_no_splits_unless_it_is_chosen():
    cells = pd.Series(["True", "True", "False"])
    assert split_names("valid", cells) is None
    assert split_names("valid", cells, is_chosen=True).tolist() == ["test", "test", "train"]
    for name in ("is_valid", "isValid", "IS VALID"):
        assert split_names(name, cells).tolist() == ["test", "test", "train"]
