"""Spellings of one label are recognised, and different labels are not taken for one."""

import unicodedata

import pytest
from pandas import Series

from trueneg.data.doubtful_labels import doubtful_names, merged, spelling


@pytest.mark.parametrize(
    "spellings",
    [
        ["Email Query", "email_query", "EMAIL-QUERY", " email  query. ", "e-mail query"],
        ["Café", unicodedata.normalize("NFD", "café"), "CAFÉ"],
        ["ｒｅｆｕｎｄ", "Refund!"],
        ["Straße", "STRASSE"],
        ["sign in / log in", "Sign-in, log-in", "signin_login"],
        ["v1.0 bug", "V1.0_Bug"],
    ],
)
def test_case_space_punctuation_and_unicode_form_make_no_label(spellings):
    assert len(set(map(spelling, spellings))) == 1
    labels = Series([*spellings, spellings[-1], "another"])
    assert merged(labels).tolist() == [spellings[-1]] * (len(spellings) + 1) + ["another"]


@pytest.mark.parametrize(
    "labels",
    [
        ["C", "C++", "C#"],
        ["A", "A-", "A+"],
        ["1.5 kg", "15 kg", "1-5 kg"],
        ["1", "-1", "1.1", "11"],
        ["2024-01", "202401"],
        ["refund", "refunds"],
        ["", "?"],
    ],
)
def test_labels_with_another_meaning_stay_apart(labels):
    assert len(set(map(spelling, labels))) == len(labels)
    assert merged(Series(labels)).tolist() == labels


def test_names_of_no_label_are_named_with_their_counts():
    labels = Series(["Unknown", "unknown", "N/A.", "not set", "none", "Other", "no", "nonesuch"])
    _, none = doubtful_names(labels)
    assert none.endswith(": Unknown 1, unknown 1; N/A. 1; not set 1; none 1; Other 1")


def test_names_of_restricted_labels_are_not_shown():
    labels = Series(["HIV", "hiv", "unknown"])
    assert len(doubtful_names(labels)) == 2
    for sentence in doubtful_names(labels, restricted=True):
        assert "hiv" not in sentence.lower()
        assert ": unknown" not in sentence
