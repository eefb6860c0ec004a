"""``trueneg check`` on text studies before anything is read: files, mistakes with their lines,
counts and times.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.cli.test_check_towers import bert
from tests.studies import tiny_texts, tiny_words
from trueneg.cli.main import main

TABLE = tiny_texts()["dataset"]
VECTORS = {"name": "vectors", "path": "vectors.npy"}
# Texts of five labels; two equal another one after normalisation, and one has a label of its own.
TEXTS = [
    (f"question {number} on topic {label}", f"topic {label}")
    for label in range(5)
    for number in range(12)
]
TEXTS[3], TEXTS[5] = ("question 2 on TOPIC 0!", "topic 0"), ("Question  4 on topic 0.", "topic 0")
TEXTS.append(("alone", "lonely"))


@pytest.fixture(autouse=True)
def _with_a_table_and_its_vectors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("data").mkdir()
    pd.DataFrame(TEXTS, columns=["text", "label"]).to_csv("data/texts.csv", index=False)
    np.save("vectors.npy", np.eye(len(TEXTS), dtype=np.float32))


def checked(capsys, dataset=None, *, words=None, **changes):
    """Check a study on vectors; return the exit code, and the lines of its output and errors."""
    study = tiny_texts(**({"text_encoder": VECTORS} | changes))
    study["dataset"] |= dataset or {}
    Path("study.yaml").write_text(
        yaml.safe_dump({"intents": study} | ({"words": words} if words else {}))
    )
    code, printed = main(["check", "study.yaml"]), capsys.readouterr()
    return code, [line.strip() for line in (printed.out + printed.err).splitlines()]


def test_texts_are_described_with_counts_of_equal_and_left_out_ones(capsys):
    code, lines = checked(capsys)
    assert code == 0
    (data,) = [line for line in lines if "with 6 labels" in line]
    # Of 12 texts, 1 is for validation and 2 for the test.
    for fact in (
        "61 texts",
        "training 45",
        "1 of 61 texts",
        "second training text",
    ):
        assert fact in data
    # none of the untrained towers
    (known,) = [line for line in lines if "negatives, about" in line]
    assert "7 negatives" in known
    assert "equal another one after normalisation" in known
    assert "1.27 (18 %) share its class" in known  # 7 · 8 / 44
    assert any(line.startswith("8 runs to train in 4 jobs: ") for line in lines)
    assert not any("MISSING" in line or "WARNING" in line for line in lines)


def test_updates_on_a_frozen_tower_are_measured_without_its_vectors(capsys):
    code, lines = checked(capsys)
    assert code == 0
    assert not Path("results").exists()
    assert any("measured updates on cpu" in line for line in lines)


def test_too_few_draws_for_what_is_learned_of_each_text_are_reported(capsys):
    objectives = tiny_texts()["objectives"] | {"Averaged": {"name": "global"}}
    for updates, expected in ((27, 1), (29, 0)):  # of 8 texts each; 45 are for training
        training = tiny_texts()["training"] | {"updates": updates, "epochs": None}
        code, lines = checked(capsys, objectives=objectives, training=training)
        assert code == 0
        warnings = [line for line in lines if "WARNING" in line]
        assert len(warnings) == expected
        assert all(
            "Averaged draws each training sample 4.8 times" in line and "at least 5" in line
            for line in warnings
        )


def test_labels_without_training_are_counted(capsys):
    labels = {"train": 2, "validation_unseen": 2, "test_unseen": 2}
    code, lines = checked(capsys, {"labels": labels})
    assert code == 0
    (data,) = [line for line in lines if "with 6 labels" in line]
    # Of 12 texts of each label, 1 is for validation and 2 for the test.
    # one of the latter has a single text
    unseen = "of labels that are never trained on: 2 for selection, 2 for results"
    assert f"training 18, validation 2, test 4; {unseen}" in data


@pytest.mark.parametrize(
    "dataset", [{"path": "none.csv"}, {"test_path": "none.csv"}, {"rated": {"path": "none.csv"}}]
)
def test_a_missing_file_is_listed_with_the_runs_of_unknown_duration(dataset, capsys):
    code, lines = checked(capsys, dataset)
    assert code == 0
    assert [line.split(":")[0] for line in lines if "MISSING" in line] in [
        [f"MISSING dataset.{key}, none.csv"] for key in ("path", "test_path", "rated.path")
    ]
    assert "of unknown duration" in lines[-1]


def test_missing_clinc150_is_listed_with_its_address(capsys):
    study = tiny_texts(
        dataset={"source": "clinc150", "path": "data_full.json"}, text_encoder=VECTORS
    )
    Path("study.yaml").write_text(yaml.safe_dump({"intents": study}))
    assert main(["check", "study.yaml"]) == 0
    assert (
        "MISSING dataset.path, data_full.json: data_full.json of https://github.com/clinc/oos-eval"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        (b"\xff\xfe\x00\x00a", ["data/texts.csv: cannot be read"]),
        (
            b"text,label\na,x\n ,x\nb,\nc,y\n",
            ["data/texts.csv: line 3: text is ''", "data/texts.csv: line 4: label is ''"],
        ),
        (b"texts,label\na,x\n", ["text (found texts, label)"]),
        (
            b"text,label\na,x\nb,x\nc,x\n",
            ["label has 1 different labels in 3 rows; expected at least two"],
        ),
        (
            b"text,label\n" + b"".join(b"text %d,x\n" % number for number in range(9)) + b"o,y\n",
            ["seed 0: only one label, 'x', has texts to train on; expected at least two"],
        ),
    ],
)
def test_an_unusable_table_is_refused_with_file_and_line(content, facts, capsys):
    Path("data/texts.csv").write_bytes(content)
    code, lines = checked(capsys)
    assert code == 1
    assert len(lines) == len(facts)
    assert all(
        line.startswith(("data/", "source ")) and fact in line
        for line, fact in zip(lines, facts, strict=True)
    )


@pytest.mark.parametrize(
    ("dataset", "changes", "facts"),
    [
        (
            {"labels": {"train": 5, "test_unseen": 2}},
            {},
            ["dataset.labels", "7 labels", "at most the 6 labels"],
        ),
        (
            {},
            {"training": {"updates": 1, "batch_size": 64}},
            ["training.batch_size is 64", "seed 0 contains 45 samples"],
        ),
        (
            {},
            {"text_encoder": VECTORS | {"path": "none.npy"}},
            ["none.npy: does not exist; expected vectors"],
        ),
        (
            {"path": "data/half.csv"},
            {},
            ["vectors.npy has float32 of shape (61, 61)", "each of 30 sentences"],
        ),
    ],
)
def test_settings_that_do_not_fit_the_texts_are_refused(dataset, changes, facts, capsys):
    pd.DataFrame(TEXTS[:30], columns=["text", "label"]).to_csv("data/half.csv", index=False)
    code, lines = checked(capsys, dataset, **changes)
    assert code == 1
    (line,) = lines
    assert all(fact in line for fact in facts)


def test_texts_too_long_for_a_tower_are_refused_by_row_once_there_are_texts(tmp_path, capsys):
    texts = pd.DataFrame(TEXTS, columns=["text", "label"])
    for row in (20, 37):
        texts.loc[row, "text"] += "  and more" * (row + 20)
    texts.to_csv("data/texts.csv", index=False)
    tower = bert(tmp_path / "bert", longest=128) | {"maximum_tokens": 40}
    code, lines = checked(capsys, text_encoder=tower)
    assert code == 1
    assert "2 of 61 texts are too long" in lines[-1]
    assert all(fact in lines[-1] for fact in ("at most 40", "truncate"))
    assert lines[-1].endswith("data/texts.csv, line 39; data/texts.csv, line 22.")
    # nothing to measure yet
    code, lines = checked(capsys, {"path": "none.csv"}, text_encoder=tower)
    assert code == 0
    assert "1 frozen tower to compute once, of texts" in lines[-1]


def test_class_probabilities_of_a_language_model_wait_for_their_study(capsys):
    objectives = tiny_texts()["objectives"] | {
        "DCL": {"name": "dcl", "class_probability": "language model"}
    }
    code, lines = checked(
        capsys, {"text": "words"}, objectives=objectives, words=tiny_words(reports=TABLE)
    )
    assert code == 0
    assert "text_table: sentences not created yet; scored by 0 of 1 language models" in " ".join(
        lines
    )
    assert not any("η is" in line for line in lines)


def test_mistakes_in_the_texts_of_a_likelihood_study_are_reported(capsys):
    pd.DataFrame([*TEXTS, ("", "topic 1")], columns=["text", "label"]).to_csv(
        "data/texts.csv", index=False
    )
    Path("study.yaml").write_text(yaml.safe_dump({"words": tiny_words(reports=TABLE)}))
    assert main(["check", "study.yaml"]) == 1
    assert "line 63: text is ''" in capsys.readouterr().err


def test_runs_of_a_study_without_runs_are_an_empty_list(capsys):
    assert main(["runs", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == []
