"""What the cells of a column mean, compared with plain definitions."""

import itertools

import pandas as pd
import pytest

from trueneg.cli.columns import LOOKED_AT, kind_of
from trueneg.data.cells import MISSING, is_missing
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
