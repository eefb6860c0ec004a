"""Spellings of one label are recognised, and different labels are not taken for one."""

import unicodedata

import numpy as np
import pandas as pd
import pytest
from pandas import Series

from trueneg.data.doubtful_labels import doubtful_labels, doubtful_names, merged, spelling
from trueneg.data.texts.text_source import TextSource


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


def test_names_of_restricted_labels_and_texts_are_not_shown():
    names = ("HIV", "hiv", "unknown")
    sentences = pd.DataFrame({"sentence": "Secret", "class": [0, 1, 2], "split": ""})
    none = np.empty((0, 2), np.int64)
    open_, closed = (
        doubtful_labels(TextSource("table", sentences, none, names, restricted=is_restricted))
        for is_restricted in (False, True)
    )
    assert len(open_) == len(closed) == 3
    assert all(name in " ".join(open_) for name in (*names, "Secret"))
    assert [sentence.split()[0] for sentence in closed] == ["1", "1", "1"]
    assert not any(name in " ".join(closed) for name in ("HIV", "hiv", "unknown", "Secret"))
