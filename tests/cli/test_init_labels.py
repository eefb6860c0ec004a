"""What `trueneg init` and `trueneg check` say about labels that may be mistakes, what is merged or
left out on request, and which samples are held out.
"""

import io
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.cli.test_init import TOPICS, dataset, init, photographs, questions
from tests.cli.test_init_accounts import said_by_check
from tests.data.pictures import encoded, picture
from trueneg.config.reading import read_configuration
from trueneg.data.images.sources import image_folder
from trueneg.data.texts import text_table
from trueneg.data.texts.text_splits import text_subset


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def dirty(rows=300) -> pd.DataFrame:
    """Questions of which some have another spelling, no topic, or a topic of their own."""
    table = questions(rows)
    table.loc[table.index % 12 == 0, "topic"] = "In-Voices "
    table.loc[table.index % 30 == 1, "topic"] = "unknown"
    table.loc[table.index % 100 == 2, "topic"] = "fax"
    table.loc[:4, "topic"] = ""
    return table


def left_out(printed: str) -> int:
    """Return how many rows or images are left out, by the sentences about them."""
    numbers = re.findall(r"^left out: ([\d,]+) (?:row|image)", printed, re.MULTILINE)
    return sum(int(number.replace(",", "")) for number in numbers)


def test_spellings_and_missing_labels_are_listed_and_kept_without_a_request(capsys):
    dirty().to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 0
    printed = capsys.readouterr().out
    counts = Counter(dirty()["topic"].str.strip())
    assert f"invoices {counts['invoices']}, In-Voices {counts['In-Voices']}" in printed
    assert f": unknown {counts['unknown']}\n" in printed
    assert f"fewer than 5 rows: fax {counts['fax']}\n" in printed
    kept = pd.read_csv(dataset().path)["topic"].str.strip()
    assert set(kept) == {*TOPICS, "In-Voices", "unknown"}
    assert f"{len(kept)} of 300 rows are used" in printed
    assert len(kept) + left_out(printed) == 300
    described = said_by_check("text")[0]
    assert f"invoices {counts['invoices']}, In-Voices {counts['In-Voices']}" in described
    assert f": unknown {counts['unknown']}" in described


def test_labels_are_merged_and_left_out_on_request(capsys):
    table = dirty()
    table.to_csv("questions.csv", index=False)
    options = ("--merge-labels", "--leave-out", "UNKNOWN", "--leave-out", "fax")
    assert init("text", "questions.csv", *options) == 0
    printed = capsys.readouterr().out
    source = text_table.read_source(dataset().model_dump(mode="json"))
    assert source.label_names == tuple(sorted(TOPICS))
    expected = table[~table["topic"].isin(["", "unknown", "fax"])]
    assert source.sentences["sentence"].tolist() == expected["message"].tolist()
    assert [source.label_names[label] for label in source.labels] == [
        topic.replace("In-Voices ", "invoices") for topic in expected["topic"]
    ]
    assert len(expected) + left_out(printed) == 300
    assert "spellings" not in said_by_check("text")[0]


def test_a_merge_alone_is_written_beside_the_study():
    table = questions().assign(topic=lambda rows: rows["topic"].replace("refunds", "Parcels"))
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--merge-labels") == 0
    kept = pd.read_csv(dataset().path)
    assert kept["topic"].tolist() == table["topic"].replace("Parcels", "parcels").tolist()


@pytest.mark.parametrize("options", [["--merge-labels"], ["--leave-out", "x"]])
def test_pairs_have_no_labels_to_merge_or_to_leave_out(options, capsys):
    table = questions().assign(answer=lambda rows: "We help with " + rows["message"])
    table.drop(columns="topic").to_csv("pairs.csv", index=False)
    assert init("text", "pairs.csv", *options) == 1
    assert options[0] in capsys.readouterr().err


def test_a_label_to_be_left_out_must_exist(capsys):
    questions().to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--leave-out", "unknown") == 1
    said = capsys.readouterr().err
    assert all(word in said for word in ("unknown", "questions.csv", *TOPICS))
    assert not Path("my_study.yaml").exists()


def test_all_rare_labels_are_named(capsys):
    rare = [f"odd {number}" for number in range(25)]
    table = questions(350)
    table.loc[:49, "topic"] = rare * 2
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--label", "topic") == 0
    (line,) = re.findall(r"^left out: 50 rows.*$", capsys.readouterr().out, re.MULTILINE)
    assert all(f"{name} 2" in line for name in rare)


def test_texts_with_different_labels_are_counted_with_examples(capsys):
    table = questions()
    again = table[:20].assign(message=lambda rows: rows["message"].str.upper() + " ", topic="fax")
    once_more = table[50:60]  # with the same label
    pd.concat([table, again, once_more]).to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 0
    printed = capsys.readouterr().out
    (line,) = re.findall(r"^.*texts with different labels.*$", printed, re.MULTILINE)
    assert line.startswith("20 texts ")
    assert line.count("fax)") == 3
    assert f"({TOPICS[0]}, fax)" in line
    assert "20 texts with different labels" in said_by_check("text")[0]
    restricted = said_by_check("text", restricted=True)[0]
    assert "20 texts with different labels" in restricted
    assert "fax" not in restricted


def as_bmp(content: bytes) -> bytes:
    stream = io.BytesIO()
    Image.open(io.BytesIO(content)).save(stream, "BMP")
    return stream.getvalue()


@pytest.fixture
def animals():
    """300 images of three classes, one of them in two spellings, with a class without a name; two
    images are in two classes, one of them in another format.
    """
    photographs(Path("animals"), 300, classes=("big cat", "Big_Cat", "dog", "none"))
    Path("animals/dog/0.png").write_bytes(encoded(picture(0)))
    Path("animals/dog/again.bmp").write_bytes(as_bmp(encoded(picture(4))))
    return Path("animals")


def test_doubtful_classes_of_images_are_listed(animals, capsys):
    assert init("images", animals) == 0
    printed = capsys.readouterr().out
    described = said_by_check("images")[0]
    for said in (printed, described):
        assert "Big_Cat 75, big cat 75" in said or "big cat 75, Big_Cat 75" in said
        assert ": none 75" in said
        assert "2 images with different labels, such as: " in said
        assert "animals/big cat/4.png and animals/dog/again.bmp (big cat, dog)" in said
    assert dataset().path == "animals"
    assert "302 of 302 images are used" in printed


def test_classes_of_images_are_merged_and_left_out_on_request(animals, capsys):
    assert init("images", animals, "--merge-labels", "--leave-out", "none") == 0
    printed = capsys.readouterr().out
    assert left_out(printed) == 75
    assert "227 of 302 images are used" in printed
    listed = image_folder.listed(dataset().path)
    assert len(listed.class_names) == 2
    originals = Counter(path.resolve().parent.name for path in listed.images.places)
    assert originals == {"big cat": 75, "Big_Cat": 75, "dog": 77}
    assert np.bincount(listed.labels).tolist() == [150, 77]


def test_equal_files_of_a_large_folder_are_noticed(animals, monkeypatch, capsys):
    """Of many images, only the files are compared."""
    monkeypatch.setattr("trueneg.cli.init.DECODED", 10)
    monkeypatch.setattr("trueneg.cli.planned_data.DECODED", 10)
    assert init("images", animals) == 0
    assert "1 image with different labels, such as: " in capsys.readouterr().out
    assert "1 image with different labels, such as: " in said_by_check("images")[0]


# What is held out


def held_out(minutes: float) -> dict[str, int]:
    """Return the sizes of the splits that a study of texts holds out, and of its training set."""
    Path("my_study.yaml").unlink(missing_ok=True)
    Path("my_study_rows.csv").unlink(missing_ok=True)
    assert init("text", "questions.csv", "--minutes", str(minutes)) == 0
    settings = dataset().model_dump(mode="json")
    subset = text_subset(text_table.read_source(settings), settings, 0)
    return {name: len(getattr(subset, name)) for name in ("test", "validation", "bank")}


def test_less_time_leaves_out_texts_to_train_on_only(monkeypatch):
    monkeypatch.setattr("trueneg.cli.new_study.SAMPLE", {"text": 1.0})
    questions(1200).to_csv("questions.csv", index=False)
    complete = held_out(9000)
    short = held_out(1)
    assert complete == {"test": 240, "validation": 120, "bank": 840}
    assert (short["test"], short["validation"]) == (240, 120)
    assert short["bank"] == pytest.approx(360, abs=6)


def test_less_time_keeps_the_held_out_texts_of_the_user(monkeypatch):
    monkeypatch.setattr("trueneg.cli.new_study.SAMPLE", {"text": 1.0})
    splits = np.repeat(["train", "validation", "test"], [900, 100, 200])
    questions(1200).assign(split=splits).to_csv("questions.csv", index=False)
    assert held_out(9000) == {"test": 200, "validation": 100, "bank": 900}
    assert held_out(1) == pytest.approx({"test": 200, "validation": 100, "bank": 200}, abs=6)


@pytest.mark.parametrize("form", ["text", "images"])
def test_balanced_accuracy_is_primary_where_a_label_is_large(form):
    for number, sizes in enumerate([(80, 80, 80), (250, 60, 80)]):
        file = f"study{number}.yaml"
        if form == "text":
            table = questions(sum(sizes)).assign(topic=np.repeat(TOPICS[:3], sizes))
            table.to_csv("data.csv", index=False)
            assert init("text", "data.csv", "--output", file) == 0
        else:
            for name, size in zip(TOPICS, sizes, strict=False):
                photographs(Path(f"data{number}/{name}"), size)
            assert init("images", f"data{number}", "--output", file) == 0
        (study,) = read_configuration([file]).studies.values()
        assert study.primary.group == (None if number == 0 else "macro")


@pytest.mark.parametrize(
    ("form", "libraries"),
    [
        ("text", ["sentence_transformers"]),
        ("images", ["timm"]),
        ("pairs", ["sentence_transformers", "timm"]),
    ],
)
def test_a_study_whose_libraries_are_missing_is_not_written(form, libraries, monkeypatch, capsys):
    photographs(Path("photos"), 240, classes=("cat", "dog") if form == "images" else ("",))
    table = questions(240).assign(file=[f"{number}.png" for number in range(240)])
    table.loc[0, "message"] = ""  # so that rows are written beside the study
    table.to_csv("table.csv", index=False)
    arguments = {
        "text": ["text", "table.csv"],
        "images": ["images", "photos"],
        "pairs": ["pairs", "table.csv", "--images", "photos"],
    }[form]
    before = sorted(Path().iterdir())
    monkeypatch.setattr("trueneg.cli.new_study.packages_distributions", dict)
    assert init(*arguments) == 1
    said = capsys.readouterr().err
    assert all(name in said for name in libraries)
    assert said.count("\n") == 1
    assert "pip install 'trueneg[pretrained]'" in said
    assert sorted(Path().iterdir()) == before
