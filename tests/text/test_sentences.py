"""Sentence splitting: hard cases, in parallel, and from the cache."""

import logging

import pandas as pd
import pytest

from trueneg.io import privacy
from trueneg.text import split_sentences
from trueneg.text.sentences import USED, split_reports

HARD = [
    ("No acute disease. Heart size is normal.", ["No acute disease.", "Heart size is normal."]),
    ("1. No acute disease. 2. Stable nodule.", ["No acute disease.", "Stable nodule."]),
    ("1. Stable nodule 2. No effusion", ["Stable nodule.", "No effusion"]),
    (
        "No effusion or pneumothorax.Lungs are clear.",
        ["No effusion or pneumothorax.", "Lungs are clear."],
    ),
    (
        "The nodule measures 1.4 x 0.9 cm. It is stable.",
        ["The nodule measures 1.4 x 0.9 cm.", "It is stable."],
    ),
    (
        "Discussed with Dr. Smith at 3 p.m. by telephone.",
        ["Discussed with Dr. Smith at 3 p.m. by telephone."],
    ),
    (
        "Compared to 3/4/2011, no change. No edema.",
        ["Compared to 3/4/2011, no change.", "No edema."],
    ),
    ("Heart size is normal .. Lungs are clear ..", ["Heart size is normal.", "Lungs are clear."]),
    ("Fracture of the left 4th rib. No other.", ["Fracture of the left 4th rib.", "No other."]),
    ("Is there a mass? CT is advised.", ["Is there a mass?", "CT is advised."]),
    ("Opacity, e.g. pneumonia, in the left base.", ["Opacity, e.g. pneumonia, in the left base."]),
    ("Low lung volumes; no edema.", ["Low lung volumes; no edema."]),
    (
        "The heart is\nenlarged.\n\nThe lungs are clear.",
        ["The heart is enlarged.", "The lungs are clear."],
    ),
    ("Stable XXXX. XXXX deformity of T9.", ["Stable XXXX.", "XXXX deformity of T9."]),
    ("___. Clear lungs.", ["Clear lungs."]),
    ("Clear lungs", ["Clear lungs"]),
    ("", []),
    ("1. 2. 3.", []),
    ("XXXX", []),
]


@pytest.mark.parametrize(("text", "expected"), HARD)
def test_hard_cases(text, expected):
    assert split_sentences(text) == expected


@pytest.mark.parametrize("text", [None, 3.5, b"Clear."])
def test_values_other_than_strings_are_rejected(text):
    with pytest.raises(ValueError, match="expected a string"):
        split_sentences(text)


@pytest.fixture
def reports(tmp_path):
    table = pd.DataFrame({"report": [f"r{number}" for number in range(130)], "text": ""})
    table["text"] = [f"Nodule of {number % 60} mm. Clear lungs. " for number in range(130)]
    table.loc[7, "text"] = "12."
    table["state"] = (table["text"] == "12.").map({False: USED, True: "empty"})
    privacy.write_table(table.assign(patient=table["report"]), tmp_path / "reports.parquet", False)
    return tmp_path / "reports.parquet"


@pytest.mark.parametrize("processes", [1, 2])
def test_every_sentence_is_written_with_its_report_and_counted(reports, tmp_path, processes):
    paths = {name: tmp_path / f"{name}.parquet" for name in ("sentences", "unique")}
    split_reports(reports, **paths, cache=tmp_path / "cache", processes=processes)
    sentences, unique = (privacy.read_table(path)[0] for path in paths.values())
    assert len(sentences) == 2 * 129
    assert sentences.groupby("report")["index"].agg(list).map(lambda index: index == [0, 1]).all()
    assert "r7" not in set(sentences["report"])
    assert unique.iloc[0].tolist() == ["Clear lungs.", 129]
    assert unique["count"].sum() == len(sentences)
    assert not sentences["marked"].any()


def test_a_text_is_split_only_once(reports, tmp_path, caplog, monkeypatch):
    arguments = {"unique": tmp_path / "u.parquet", "cache": tmp_path / "cache"}
    split_reports(reports, sentences=tmp_path / "first.parquet", **arguments)
    monkeypatch.setattr(
        "trueneg.text.sentences.split_sentences", lambda text: pytest.fail("split again")
    )
    monkeypatch.setattr(
        "trueneg.text.sentences._splitter_version",
        lambda: next((tmp_path / "cache").iterdir()).name,
    )
    with caplog.at_level(logging.INFO, "trueneg"):
        split_reports(reports, sentences=tmp_path / "second.parquet", **arguments)
    assert "0 new texts, 60 " in caplog.text
    first, second = (
        privacy.read_table(tmp_path / name)[0] for name in ("first.parquet", "second.parquet")
    )
    pd.testing.assert_frame_equal(first, second)
