"""The rule that gives a sentence its class, and the committed verdicts on it."""

from pathlib import Path

import pandas as pd
import pytest

from trueneg.data.reports.open_i_classes import NORMAL, WORDS, assign_classes, class_of

VERDICTS = Path(__file__).resolve().parents[2] / "docs" / "results" / "open_i_sentence_classes.csv"
CODED = frozenset(
    {
        "Pleural Effusion",
        "Cardiomegaly",
        "Pulmonary Atelectasis",
        "Calcinosis",
        "Surgical Instruments",
    }
)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Small left pleural effusion.", "Pleural Effusion"),
        ("No pleural effusion.", None),
        ("No pneumothorax, edema, or pleural effusion.", None),
        ("There is no edema, but a small effusion persists.", "Pleural Effusion"),
        ("No edema; bibasilar atelectasis.", "Pulmonary Atelectasis"),
        ("The lungs are clear without effusion.", None),
        ("The heart is mildly enlarged.", "Cardiomegaly"),
        ("Borderline cardiomegaly with atelectasis.", "Cardiomegaly"),
        ("Sternotomy wires are intact.", "Surgical Instruments"),
        ("Right-sided pneumothorax.", None),  # no expert coded one
        ("Comparison is made with an earlier film.", None),
    ],
)
def test_a_sentence_has_the_class_that_it_affirms(sentence, expected):
    assert class_of(sentence, CODED) == expected


def test_sentences_get_classes_from_the_codes_of_their_report():
    codes = pd.DataFrame(
        [
            ("a", NORMAL),
            ("b", "Pleural Effusion/left/small"),
            ("b", "Pleural Effusion/right"),
            ("c", "No Indexing"),
            ("d", NORMAL),
        ],
        columns=["report", "code"],
    )
    sentences = pd.DataFrame(
        [
            ("a", 0, "Clear."),
            ("a", 1, "No effusion."),
            ("b", 0, "An effusion."),
            ("b", 1, "Clear."),
            ("c", 0, "Effusion."),
        ],
        columns=["report", "index", "sentence"],
    )
    assigned, classes = assign_classes(sentences, codes)
    assert assigned.to_numpy().tolist() == [
        ["a", 0, NORMAL],
        ["a", 1, NORMAL],
        ["b", 0, "Pleural Effusion"],
    ]
    # Shares of the three reports that experts coded; two codes of one heading are one.
    assert classes.set_index("class")["probability"].round(6).to_dict() == {
        NORMAL: 0.666667,
        "Pleural Effusion": 0.333333,
    }


def test_the_verdicts_contain_only_labels():
    table = pd.read_csv(VERDICTS)
    assert table.columns.tolist() == ["report", "index", "class", "verdict"]
    assert len(table) == 50
    assert table["report"].str.fullmatch(r"CXR\d+").all()
    assert set(table["class"]) <= {NORMAL, *WORDS}
    assert set(table["verdict"]) <= {"right", "wrong", "doubtful"}
    assert (table["verdict"] == "right").mean() >= 0.9
