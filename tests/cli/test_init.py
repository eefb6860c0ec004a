"""`trueneg init` finds what the data have, refuses what cannot show anything, and writes a study
that runs as it is.
"""

import json
import re
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.data.pictures import encoded, picture, write_picture
from tests.projects import new_project
from trueneg.cli.main import main
from trueneg.config.reading import read_configuration
from trueneg.data.decoding import decode_resized
from trueneg.data.images.loading import load_source
from trueneg.data.images.sources import image_folder, parquet
from trueneg.data.tables import read_columns
from trueneg.data.texts import text_table

TOPICS = ["invoices", "parcels", "passwords", "printers", "refunds", "tickets"]
WAYS = ["asks about", "complains about", "forgot", "praises", "wants to know more about"]


def questions(rows=300):
    """Texts with a topic, an id and a date."""
    lines = [
        (
            number,
            f"Customer {number} {WAYS[number % 5]} {TOPICS[number % 6]}.",
            TOPICS[number % 6],
            "2026-01-02",
        )
        for number in range(rows)
    ]
    return pd.DataFrame(lines, columns=["id", "message", "topic", "received"])


def photographs(folder, count=240, classes=("",)):
    """Image files, in one folder per class."""
    for number in range(count):
        path = folder / classes[number % len(classes)] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded(picture(number)))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def init(*arguments):
    return main(["init", *map(str, arguments)])


def dataset(name="my_study"):
    return read_configuration(["my_study.yaml"]).studies[name].dataset


def test_texts_with_labels(capsys):
    questions().to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 0
    data = dataset()
    assert (data.path, data.text_column, data.label_column, data.labels) == (
        "questions.csv",
        "message",
        "topic",
        None,
    )
    printed = capsys.readouterr().out
    assert 'texts: message, such as "Customer 0 asks about invoices."' in printed
    assert "6 labels of 50 to 50 rows" in printed
    assert printed.endswith(
        "    trueneg check my_study.yaml\n    snakemake --cores all --configfile my_study.yaml\n"
    )
    study = read_configuration(["my_study.yaml"]).studies["my_study"]
    assert {
        "CL",
        "Hardness",
        "Guided",
        "Oracle",
        "Random-removal",
        "CL-as-Guided",
        "CL-as-Hardness",
        "untrained",
    } == study.objectives.keys()
    assert study.tuning is not None


def test_many_labels_leave_some_for_the_test_on_labels_of_no_run():
    table = questions(400)
    table["topic"] = [f"topic {number % 20}" for number in range(400)]
    table.to_json("questions.jsonl", orient="records", lines=True)
    assert init("text", "questions.jsonl") == 0
    assert dict(dataset().labels)["train"] == 12


def test_pairs_of_texts():
    table = questions()
    table["answer"] = "We will help you with " + table["message"].str[9:]
    table.drop(columns="topic").to_parquet("pairs.parquet")
    assert init("text", "pairs.parquet") == 0
    assert (dataset().positives, dataset().positive_column) == ("given", "answer")
    assert "Oracle" not in read_configuration(["my_study.yaml"]).studies["my_study"].objectives


def test_images_with_texts():
    photographs(Path("photos"))
    table = (
        questions(240)
        .drop(columns="topic")
        .assign(file=[f"{number}.png" for number in range(240)], site=lambda rows: rows["id"] // 2)
    )
    table.assign(urgent=table["id"] % 2).to_csv("table.csv", index=False)
    assert init("pairs", "table.csv", "--images", "photos") == 0
    reports = read_configuration(["my_study.yaml"]).studies["my_study_text"].reports
    assert (reports.image_column, reports.text_column, reports.patient_column) == (
        "file",
        "message",
        "site",
    )
    assert dataset().label_columns == ["urgent"]


def test_images_with_classes():
    photographs(Path("animals"), classes=("cat", "dog", "dog", "eel"))
    assert init("images", "animals") == 0
    assert dataset().test == 0.2
    assert read_configuration(["my_study.yaml"]).studies["my_study"].primary.group == "macro"
    Path("my_study.yaml").unlink()
    photographs(Path("plants"), classes=("fern", "moss"))
    assert init("images", "plants") == 0
    assert read_configuration(["my_study.yaml"]).studies["my_study"].primary.group is None


@pytest.mark.parametrize(("side", "resolution"), [(32, 96), (200, 160)])
@pytest.mark.parametrize("first", [b"", encoded(picture(0)), encoded(picture(0, 200))])
def test_the_resolution_is_that_of_most_images(side, resolution, first):
    for number in range(240):
        write_picture(Path("animals") / "ab"[number % 2] / f"{number}.png", number, width=side)
    Path("animals/a/0.png").write_bytes(first)
    assert init("images", "animals") == 0
    assert dataset().resolution == resolution


def test_a_table_beside_class_folders_has_no_images(capsys):
    photographs(Path("animals"), classes=("cat", "dog"))
    questions().to_parquet("animals/labels.parquet")
    assert init("images", "animals") == 0
    assert dataset().source == "image_folder"
    Path("plants").mkdir()
    questions().to_parquet("plants/labels.parquet")
    assert init("images", "plants", "--output", "plants.yaml") == 1
    assert "plants contains no train*.parquet" in capsys.readouterr().err


@pytest.mark.parametrize("layout", ["bytes", "struct", "folder"])
def test_images_in_parquet_files(layout, monkeypatch, capsys):
    contents = [encoded(picture(number), "JPEG") for number in range(300)]
    labels = ["cat", "dog", "eel"] * 100
    images = contents if layout == "bytes" else [{"bytes": each, "path": ""} for each in contents]
    table = pd.DataFrame({"image": images, "label": labels, "source": "web"})
    place = Path("animals.parquet")
    if layout == "folder":
        place = Path("animals")
        place.mkdir()
        table[:240].to_parquet(place / "train.parquet")
        table[240:].to_parquet(place / "test-00000-of-00001.parquet")
    else:
        table.to_parquet(place)
    assert init("images", place) == 0
    printed = capsys.readouterr().out
    assert "300 images of 3 classes" in printed
    assert "not used: source" in printed
    assert ("splits of your own: train 240, test 60" in printed) == (layout == "folder")
    assert dataset().source == "parquet"
    source = load_source("parquet", path=dataset().path, resolution=16)
    for number in (0, 299):
        pixels = decode_resized(contents[number], "RGB", 16)
        np.testing.assert_array_equal(source.images[number], pixels)
    Path("my_study.yaml").unlink()
    monkeypatch.setattr("trueneg.cli.new_study.SAMPLE", {"images": 60.0})
    assert init("images", place) == 0
    sampled = parquet.listed(dataset().path)
    kept = [contents.index(content) for content in sampled.images.read()]
    assert 200 <= len(kept) < 300
    assert [sampled.class_names[label] for label in sampled.labels] == [labels[n] for n in kept]
    assert sampled.is_test.tolist() == [layout == "folder" and number >= 240 for number in kept]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (questions(30), "30 usable rows"),
        (
            questions().rename(columns={"topic": "kind"}).assign(tone=TOPICS * 50),
            "several columns that may contain labels: kind, tone",
        ),
        (
            questions()
            .drop(columns="topic")
            .assign(customer="John Smith " + pd.Series(map(str, range(300)))),
            "possible columns of positives: customer",
        ),
        (questions().assign(topic="all"), "same label in all rows"),
        (questions().assign(message="Where is my order?"), "no column of different texts"),
        (questions()[["id", "message"]], "no labels"),
        (questions()[["id", "received"]], "no column of different texts"),
        (
            questions()[["id"]].assign(
                time=[f"2026-05-01 10:{n // 60:02}:{n % 60:02}" for n in range(300)]
            ),
            "no column of different texts",
        ),
    ],
)
def test_data_that_cannot_show_anything_are_refused_in_a_sentence(table, said, capsys):
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 1
    sentence = capsys.readouterr().err
    assert said in sentence
    assert "questions.csv" in sentence
    assert sentence.count("\n") == 1
    assert not Path("my_study.yaml").exists()


def test_a_table_without_images_is_refused(capsys):
    questions().to_csv("table.csv", index=False)
    assert init("pairs", "table.csv", "--images", ".") == 1
    assert "a column of image file names" in capsys.readouterr().err


def test_a_table_of_more_rows_than_fit_the_time_is_sampled(capsys, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    table = questions(20_000)
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--minutes", "1") == 0
    printed = capsys.readouterr().out
    kept = pd.read_csv(dataset().path)
    assert len(kept) == pytest.approx(12_000, abs=6)  # as many to train on as are held out
    assert f"left out: {20_000 - len(kept):,} rows to train on, drawn at random" in printed
    assert set(kept["message"]) <= set(table["message"])
    assert kept["topic"].value_counts().max() - kept["topic"].value_counts().min() <= 1


def test_a_folder_of_more_images_than_fit_the_time_is_sampled(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    photographs(Path("animals/train"), 500, classes=("cat", "dog"))
    photographs(Path("animals/test"), 100, classes=("cat", "dog"))
    assert init("images", "animals", "--minutes", "1") == 0
    listed = image_folder.listed(dataset().path)
    assert len(listed.labels) == 300
    assert listed.is_test.sum() == 100
    assert dataset().validation == 0.25  # a tenth of 500, of the 200 that are kept
    assert all(
        path.resolve().is_relative_to(Path("animals").resolve()) for path in listed.images.places
    )


def test_rows_with_empty_cells_are_left_out(capsys):
    table = questions()
    table.loc[::2, "topic"] = ""
    table.loc[1:20, "message"] = ""
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 1  # too few are left
    assert not Path("my_study_rows.csv").exists()
    questions(900).assign(topic=lambda rows: rows["topic"].where(rows["id"] % 3 > 0, "")).to_csv(
        "questions.csv", index=False
    )
    assert init("text", "questions.csv") == 0
    assert "left out: 300 rows without a topic" in capsys.readouterr().out
    assert len(pd.read_csv(dataset().path)) == 600


def test_columns_can_be_chosen(capsys):
    table = questions().assign(word=[f"word{number}" for number in range(300)], tone=TOPICS * 50)
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--text", "word", "--label", "tone") == 0
    assert (dataset().text_column, dataset().label_column) == ("word", "tone")
    Path("my_study.yaml").unlink()
    assert init("text", "questions.csv", "--positive", "word") == 0
    assert (dataset().text_column, dataset().positive_column) == ("message", "word")
    Path("my_study.yaml").unlink()
    assert init("text", "questions.csv", "--label", "colour") == 1
    assert "no column colour" in capsys.readouterr().err


def test_texts_are_told_from_names_and_times():
    table = questions().assign(customer=[f"John Smith {number}" for number in range(300)])
    table["created"] = [
        f"2026-05-01 10:{number // 60:02}:{number % 60:02}" for number in range(300)
    ]
    table[["created", "customer", "message", "topic"]].to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 0
    assert dataset().text_column == "message"


def test_a_named_positive_beats_an_unnamed_label():
    table = (
        questions()
        .drop(columns="topic")
        .assign(
            answer=lambda rows: "We help. " + rows["message"], language=["en", "de", "fr"] * 100
        )
    )
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 0
    assert dataset().positive_column == "answer"


def test_columns_that_are_not_text_are_ignored():
    table = questions()
    table["tags"] = [["a", "b"]] * 300
    table.to_json("questions.jsonl", orient="records", lines=True)
    assert init("text", "questions.jsonl") == 0
    assert dataset().label_column == "topic"


def test_a_damaged_cell_of_a_column_is_reported():
    table = questions().astype(object)
    table.loc[3, "message"] = "half a character: \ud800"
    lines = [json.dumps(row) for row in table.to_dict("records")]
    Path("questions.jsonl").write_text("\n".join(lines))
    assert init("text", "questions.jsonl") == 1


def test_an_empty_column_is_refused_in_a_sentence(capsys):
    questions().assign(tone="").to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--label", "tone") == 1
    assert "tone" in capsys.readouterr().err


def test_semicolons_and_other_scripts_get_a_remark(capsys):
    questions().to_csv("questions.csv", index=False, sep=";")
    assert init("text", "questions.csv") == 1
    assert "commas" in capsys.readouterr().err
    table = questions()
    table["message"] = [f"第{number}位顾客想了解发票的问题" for number in range(300)]
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 0
    assert "multilingual" in capsys.readouterr().out


def test_sampling_keeps_some_rows_of_every_label(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    table = questions(9000)
    table.loc[table.index % 30 > 0, "topic"] = "common"
    table.loc[table.index % 30 == 0, "topic"] = [f"rare {number % 20}" for number in range(300)]
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--minutes", "1") == 0
    sizes = pd.read_csv(dataset().path)["topic"].value_counts()
    assert sizes.min() >= 5
    assert (
        len(sizes)
        == 21
        == sum(
            dataset().labels.model_dump()[part]
            for part in ("train", "validation_unseen", "test_unseen")
        )
    )


def test_captions_are_sampled_by_image(monkeypatch, capsys):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    photographs(Path("photos"), 600)
    captions = (
        questions(1800)
        .drop(columns="topic")
        .assign(file=[f"{number // 3}.png" for number in range(1800)])
    )
    # two images of each rare label, which may not both be drawn
    rare = {f"rare{n}": (np.arange(1800) // 6 == n).astype(int) for n in range(8)}
    captions.assign(
        site=[number // 3 % 2 for number in range(1800)], subject=captions["file"], **rare
    ).to_csv("table.csv", index=False)
    columns = ["--image", "file"]
    assert init("pairs", "table.csv", "--images", "photos", "--minutes", "1", *columns) == 0
    study = read_configuration(["my_study.yaml"]).studies
    kept = pd.read_csv(study["my_study_text"].reports.table)
    assert kept["file"].nunique() == 450
    assert set(kept["file"].value_counts()) == {3}
    assert study["my_study_text"].reports.patient_column == "subject"
    both = [name for name in rare if kept[kept[name] == 1]["file"].nunique() == 2]
    assert 0 < len(both) < len(rare)
    assert study["my_study"].dataset.label_columns == ["site", *both]
    others = ", ".join(name for name in rare if name not in both)
    assert f"not used, too rare in the images that are drawn: {others}" in capsys.readouterr().out


def test_images_that_are_missing_are_left_out(capsys):
    photographs(Path("photos"), 250)
    table = (
        questions(300).drop(columns="topic").assign(file=[f"{number}.png" for number in range(300)])
    )
    table.to_csv("table.csv", index=False)
    assert init("pairs", "table.csv", "--images", "photos") == 0
    assert (
        "left out: 50 rows whose image is not in photos, such as 250.png" in capsys.readouterr().out
    )
    assert (
        len(
            pd.read_csv(
                read_configuration(["my_study.yaml"]).studies["my_study_text"].reports.table
            )
        )
        == 250
    )
    assert init("pairs", "table.csv", "--images", ".", "--output", "other.yaml") == 1
    assert "lacks all 300 images" in capsys.readouterr().err


def test_a_study_never_has_the_name_of_a_shipped_one():
    questions().to_csv("questions.csv", index=False)
    for file in ("digits.yaml", "研究.yaml", "another/../phantom.yaml"):
        Path("another").mkdir(exist_ok=True)
        assert init("text", "questions.csv", "--output", file) == 0
        (name,) = read_configuration([file]).studies
        assert re.fullmatch(r"my_\w+", name)
    assert init("text", "questions.csv", "--output", "nowhere/x.yaml") == 1


@pytest.mark.parametrize("minutes", ["0", "-5", "nan", "1e9"])
def test_impossible_times_are_refused(minutes, capsys):
    questions().to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--minutes", minutes) == 1
    assert "--minutes" in capsys.readouterr().err


def test_rare_labels_are_left_out(capsys):
    table = questions()
    table.loc[:2, "topic"] = "odd"
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 0
    assert "left out: 3 rows of 1 label with fewer than 5 rows: odd 3" in capsys.readouterr().out
    assert "odd" not in set(pd.read_csv(dataset().path)["topic"])


def test_files_are_never_overwritten(capsys):
    questions().to_csv("questions.csv", index=False)
    Path("my_study.yaml").write_text("mine")
    assert init("text", "questions.csv") == 1
    assert "is not overwritten" in capsys.readouterr().err
    assert Path("my_study.yaml").read_text() == "mine"


def test_strange_names_are_quoted():
    table = questions().rename(columns={"message": 'the "text": $file {x}', "topic": "# topic"})
    table.to_csv("a: $name.csv", index=False)
    assert init("text", "a: $name.csv", "--output", "3 studies.yaml") == 0
    (study,) = yaml.safe_load(Path("3 studies.yaml").read_text()).values()
    assert study["dataset"]["path"] == "a: $name.csv"
    assert study["dataset"]["text_column"] == 'the "text": $file {x}'
    assert study["title"] == "a: $name"


def test_labels_and_positives_exclude_each_other(capsys):
    table = questions().drop(columns="topic").rename(columns={"message": "sentence1"})
    # whether the pair is a paraphrase
    table = table.assign(sentence2="We help. " + table["sentence1"], label=table["id"] % 2)
    table.to_csv("pairs.csv", index=False)
    assert init("text", "pairs.csv") == 1
    assert "--label label or --positive sentence2" in capsys.readouterr().err
    assert init("text", "pairs.csv", "--label", "label", "--positive", "sentence2") == 1
    assert "expected one of them" in capsys.readouterr().err
    assert init("text", "pairs.csv", "--label", "label", "--matches", "label=1") == 1
    assert "--matches is label=1" in capsys.readouterr().err
    assert init("text", "pairs.csv", "--positive", "sentence2") == 1
    assert "--matches label=VALUE" in capsys.readouterr().err
    assert init("text", "pairs.csv", "--positive", "sentence2", "--matches", "all") == 0
    assert dataset().positive_column == "sentence2"


def test_columns_that_could_have_been_taken_are_named(capsys):
    table = questions().assign(
        remark=lambda rows: "A remark: " + rows["message"], category=TOPICS * 50
    )
    table.rename(columns={"topic": "label"}).to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 0
    printed = capsys.readouterr().out
    assert "(also possible: remark; choose with --text)" in printed
    assert "(also possible: category; choose with --label)" in printed


def test_labels_are_counted_as_the_study_reads_them(capsys):
    table = questions(600)
    table["topic"] = [f"topic {number % 12}" + " " * (number // 12 % 2) for number in range(600)]
    table.to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 0
    assert "12 labels of 50 to 50 rows" in capsys.readouterr().out
    assert (
        sum(
            dataset().labels.model_dump()[part]
            for part in ("train", "validation_unseen", "test_unseen")
        )
        == 12
    )


def test_one_common_label_is_refused(capsys):
    questions().assign(topic=["b"] * 3 + ["a"] * 297).to_csv("questions.csv", index=False)
    assert init("text", "questions.csv") == 1
    assert "one label with 5 rows or more" in capsys.readouterr().err


def test_reasons_are_given_if_no_row_is_left(capsys):
    questions().assign(topic=lambda rows: rows["id"] // 3).to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--label", "topic") == 1
    assert (
        "0 usable rows; left out: 300 rows of 100 labels with fewer than 5 rows"
        in capsys.readouterr().err
    )


def test_the_rows_that_are_kept_can_be_read_again():
    table = questions(400)
    table["message"] += "\rRegards\r\n \u201ca\u201d"
    table.loc[0, "topic"] = ""
    table.to_json("questions.jsonl", orient="records", lines=True)
    assert init("text", "questions.jsonl") == 0
    kept = read_columns(dataset().path, None)
    assert list(kept["message"]) == list(table["message"][1:])


def test_images_are_found_as_the_study_finds_them(capsys):
    photographs(Path("photos"))
    for number in range(40):
        Path(f"photos/{number}.png").rename(
            unicodedata.normalize("NFD", f"photos/\u00e9{number}.png")
        )
    names = [f"\u00e9{number}.png" for number in range(40)] + [
        f" {number}.png " for number in range(40, 239)
    ]
    names.append(str(Path("photos/239.png").resolve()))
    questions(240).drop(columns="topic").assign(file=names).to_csv("table.csv", index=False)
    assert init("pairs", "table.csv", "--images", "photos") == 0
    assert "left out" not in capsys.readouterr().out
    assert (
        read_configuration(["my_study.yaml"]).studies["my_study_text"].reports.table == "table.csv"
    )
    assert init("pairs", "table.csv", "--images", "nowhere", "--output", "other.yaml") == 1
    assert "--images is nowhere" in capsys.readouterr().err


def test_a_column_is_a_label_of_images_only_if_the_study_can_use_it(capsys):
    photographs(Path("photos"))
    table = (
        questions(480)
        .drop(columns="topic")
        .assign(file=[f"{number // 2}.png" for number in range(480)])
    )
    table = table.assign(
        site=table["id"] // 2 % 2,
        first=1 - table["id"] % 2,
        rare=table["id"].lt(2),
        common=table["id"].ge(200),
    )
    table.to_csv("table.csv", index=False)
    assert init("pairs", "table.csv", "--images", "photos") == 0
    assert dataset().label_columns == ["site", "common"]
    assert "each image is its own group; site has fewer than 3 groups" in capsys.readouterr().out


def test_what_the_study_would_refuse_is_refused_and_nothing_is_left(capsys):
    photographs(Path("photos"))
    table = (
        questions(480)
        .drop(columns="topic")
        .assign(file=[f"{number // 2}.png" for number in range(480)])
    )
    table.loc[0, "message"] = ""  # a new table would be written without this row
    table.assign(patient=table["id"] // 3).to_csv("table.csv", index=False)
    assert init("pairs", "table.csv", "--images", "photos") == 1
    assert "patient differs from its value in the first row of the image" in capsys.readouterr().err
    assert not list(Path().glob("my_study*"))


def test_repeated_pairs_are_left_out_and_unnamed_columns_are_no_labels(capsys):
    photographs(Path("photos"), 250)
    table = (
        questions(250).drop(columns="topic").assign(file=[f"{number}.png" for number in range(250)])
    )
    table.assign(**{"": table["id"] % 2}).iloc[[*range(250), *range(60)]].to_csv(
        "table.csv", index=False
    )
    assert init("pairs", "table.csv", "--images", "photos") == 0
    assert "left out: 60 rows that repeat an image and its text" in capsys.readouterr().out
    assert dataset().label_columns == []


def test_hard_negative_captions_are_no_texts_and_said_to_be_unused(capsys):
    photographs(Path("photos"), 250)
    table = (
        questions(250).drop(columns="topic").assign(file=[f"{number}.png" for number in range(250)])
    )
    longer = [f"This is a longer caption of picture {250 - number}." for number in range(250)]
    table.assign(neg=longer).to_csv("table.csv", index=False)
    assert init("pairs", "table.csv", "--images", "photos") == 0
    said = capsys.readouterr().out
    assert "hard negatives: neg\n" in said
    assert "neg is not used, no cell names the image of a usable row" in said
    assert "CrossModalLoss" in said
    assert dataset().negative_image_columns is None
    texts = read_configuration(["my_study.yaml"]).studies["my_study_text"]
    assert texts.reports.text_column == "message"


def test_hard_negative_images_are_those_of_the_study(capsys):
    photographs(Path("photos"), 250)
    files = [f"{number}.png" for number in range(250)]
    table = questions(250).drop(columns="topic").assign(file=files)
    table["negative_image_1"] = [*files[1:], ""]
    table["negatives"] = [json.dumps(files[number % 5 + 5 : 10]) for number in range(250)]
    table.to_csv("table.csv", index=False)
    assert init("pairs", "table.csv", "--images", "photos") == 0
    assert "hard negatives: negative_image_1, negatives" in capsys.readouterr().out
    assert dataset().negative_image_columns == ["negative_image_1", "negatives"]
    assert main(["check", "my_study.yaml"]) == 0
    said = capsys.readouterr().out
    assert "Hard negatives that show their text are left out" in said
    assert "hard negatives are left out, because they are not images of the training split" in said
    assert main(["audit", "table.csv", "--images", "photos"]) == 0
    assert "hard negatives are not looked at" in capsys.readouterr().out


def test_hard_negatives_that_are_not_drawn_are_counted(capsys):
    photographs(Path("photos"), 1500)
    files = [f"{number}.png" for number in range(1500)]
    table = questions(1500).drop(columns="topic").assign(file=files, neg=files[1:] + files[:1])
    table.to_csv("table.csv", index=False)
    assert init("pairs", "table.csv", "--images", "photos", "--minutes", 1) == 0
    said = capsys.readouterr().out
    (count,) = re.findall(
        r"([\d,]+) hard negatives are images that are left out to save time", said
    )
    assert 0 < int(count) < 1500


@pytest.mark.parametrize("form", [["text"], ["pairs", "--images", "."]])
def test_a_table_without_rows_is_refused_in_a_sentence(form, capsys):
    Path("table.csv").write_text("file,caption\n")
    assert init(form[0], "table.csv", *form[1:]) == 1
    assert "table.csv" in capsys.readouterr().err


def test_classes_of_few_images_are_left_out(capsys):
    photographs(Path("animals"), 300, classes=("cat", "dog"))
    photographs(Path("animals/yak"), 1)
    assert init("images", "animals") == 0
    assert (
        "left out: 1 image of 1 class folder with fewer than 5 images: yak 1\n"
        in capsys.readouterr().out
    )
    assert image_folder.listed(dataset().path).class_names == ("cat", "dog")
    assert read_configuration(["my_study.yaml"]).studies["my_study"].primary.group is None
    photographs(Path("plants/fern"), 300)
    photographs(Path("plants/moss"), 4)
    assert init("images", "plants", "--output", "plants.yaml") == 1
    assert "one class folder with 5 images or more" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["common", "rare", "macro"])
def test_a_class_with_the_name_of_a_group_of_classes_is_refused(name, capsys):
    photographs(Path("animals"), 360, classes=("cat", "dog", name))
    assert init("images", "animals") == 1
    message = capsys.readouterr().err
    assert f"animals has a class named {name}; expected other names than common, rare" in message
    assert not Path("my_study.yaml").exists()
    assert init("images", "animals", "--leave-out", name) == 0


def test_a_few_broken_images_are_no_obstacle(capsys):
    photographs(Path("animals"), classes=("cat", "dog"))
    Path("animals/cat/0.png").write_bytes(b"")
    Path("animals/cat/4.png").write_text("a web page")
    assert init("images", "animals") == 0
    printed = capsys.readouterr().out
    assert "left out: 2 of 240 images: 1 damaged, 1 in formats that cannot be read" in printed
    assert "238 of 240 images are used" in printed
    settings = dataset()
    source = load_source(
        "image_folder",
        path=settings.path,
        resolution=16,
        skip_incomplete=settings.skip_incomplete,
    )
    assert len(source.images) == 238
    assert "2 of 240 images" in source.skipped


@pytest.mark.parametrize("decoded", [10, 260, 2000])
def test_broken_images_hide_neither_leaks_nor_contradictions(decoded, monkeypatch, capsys):
    """Test images that are training images in another format are noticed beside an animation, and
    also where images are opened first and decoded once some are left out.
    """
    monkeypatch.setattr("trueneg.cli.init.DECODED", decoded)
    photographs(Path("animals/train"), 240, classes=("cat", "dog"))
    photographs(Path("animals/train/yak"), 5)
    Path("animals/test").mkdir()
    for number in range(24):
        place = Path("animals/test") / ("cat", "dog", "yak")[number % 3]
        place.mkdir(exist_ok=True)
        same = decoded == 10 or number % 2
        content = encoded(picture(number), "PNG" if same else "TIFF")
        (place / f"{number}.{'png' if same else 'tiff'}").write_bytes(content)
    frames = [picture(number) for number in (900, 901)]
    animation = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    Path("animals/train/cat/0.gif").write_bytes(animation)
    Path("animals/train/yak/4.png").write_bytes(animation)
    assert init("images", "animals") == 0
    printed = capsys.readouterr().out
    assert "left out: 2 of 270 images: 2 " in printed
    assert "left out: 12 images of 1 class folder with fewer than 5 images: yak 4" in printed
    assert "with different labels" in printed
    assert "WARNING 16 of 16 test samples have the same images as samples of train" in printed
    assert dataset().leakage == "leave_out"
    assert main(["check", "my_study.yaml"]) == 0


def test_many_broken_images_are_left_out_and_too_few_others_are_refused(capsys):
    photographs(Path("animals"), 300, classes=("cat", "dog"))
    for number in range(60):
        (Path("animals") / ("cat", "dog")[number % 2] / f"{number}.png").write_bytes(b"")
    assert init("images", "animals") == 0
    assert dataset().skip_incomplete == 60
    assert main(["check", "my_study.yaml"]) == 0
    for number in range(60, 120):
        (Path("animals") / ("cat", "dog")[number % 2] / f"{number}.png").write_bytes(b"")
    assert init("images", "animals", "--output", "few.yaml") == 1
    message = "animals has 180 usable images; left out: 120 of 300 images: 120 damaged; expected"
    assert message in capsys.readouterr().err


def test_a_class_without_a_usable_image_is_left_out(capsys):
    photographs(Path("animals"), 220, classes=("cat", "dog"))
    Path("animals/broken").mkdir()
    Path("animals/broken/0.png").write_bytes(b"")
    assert init("images", "animals") == 0
    assert "left out: 1 of 221 images: 1 damaged" in capsys.readouterr().out
    assert main(["check", "my_study.yaml"]) == 0


def test_a_dangling_link_and_a_folder_without_a_name_are_no_obstacle(monkeypatch):
    photographs(Path("animals"), classes=("cat", "dog"))
    Path("animals/cat/0.png").unlink()
    Path("animals/cat/0.png").symlink_to("annex")
    monkeypatch.chdir("animals")
    assert init("images", ".", "--output", "../my_study.yaml") == 0
    assert read_configuration(["../my_study.yaml"]).studies["my_study"].title == "animals"


def test_an_output_that_cannot_be_written_is_refused_in_a_sentence(capsys):
    questions().to_csv("questions.csv", index=False)
    assert init("text", "questions.csv", "--output", "/proc/x.yaml") == 1
    assert "/proc/x.yaml cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize("is_paired", [False, True])
def test_vectors_of_the_user_s_model_are_those_of_the_rows_that_are_used(is_paired):
    table = questions(300)
    table.loc[[7, 30], "message"] = None
    if is_paired:
        table = table.drop(columns="topic").assign(
            answer=lambda rows: rows.index.astype(str) + " is an answer"
        )
    table.to_csv("table.csv", index=False)
    shape = (300, 2, 5) if is_paired else (300, 5)
    vectors = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    np.save("mine.npy", vectors)
    assert init("text", "table.csv", "--compare", "mine.npy") == 0
    study = read_configuration(["my_study.yaml"]).studies["my_study"]
    (name,) = study.compared
    stored = np.load(study.objectives[name].text_encoder.path)
    source = text_table.read_source(study.dataset.model_dump())
    columns = ["message", "answer"][: 1 + is_paired]
    expected = {
        text: vector
        for place, column in enumerate(columns)
        for text, vector in zip(
            table[column], vectors.reshape(300, 1 + is_paired, 5)[:, place], strict=True
        )
        if isinstance(text, str)
    }
    assert len(stored) == len(source.sentences)
    for text, vector in zip(source.sentences["sentence"], stored, strict=True):
        np.testing.assert_array_equal(vector, expected[text])
    compared = [(contrast.treatment, contrast.baseline) for contrast in study.contrasts]
    assert {("Guided", name), (name, "untrained")} <= set(compared)


def test_columns_that_a_study_does_not_read_stop_no_check(capsys):
    table = questions(300)
    table.to_csv("table.csv", index=False)
    assert init("text", "table.csv") == 0
    notes = pd.DataFrame({"note": "", "more": ""}, table.index).set_axis(["note", "note"], axis=1)
    pd.concat([table, notes], axis=1).to_csv("table.csv", index=False)
    assert main(["check", "my_study.yaml"]) == 0
    assert "its columns are not accounted for: table.csv" in capsys.readouterr().out
    written = yaml.safe_load(Path("my_study.yaml").read_text())
    written["my_study"]["dataset"]["restricted"] = True
    Path("my_study.yaml").write_text(yaml.safe_dump(written))
    assert main(["check", "my_study.yaml"]) == 0
    assert "its columns are not accounted for\n" in capsys.readouterr().out


@pytest.mark.parametrize("is_paired", [False, True])
def test_vectors_do_not_fit_rows_with_hard_negatives(is_paired, capsys):
    table = questions(300)
    if is_paired:
        table = table.drop(columns="topic").assign(
            answer=[f"It is answer {n}." for n in range(300)]
        )
    negatives = [f"This is never right, number {number}." for number in range(300)]
    table.assign(negative=negatives).to_csv("table.csv", index=False)
    shape = (300, 2, 5) if is_paired else (300, 5)
    np.save("mine.npy", np.random.default_rng(0).normal(size=shape))
    assert init("text", "table.csv", "--compare", "mine.npy") == 1
    assert "has several positives or hard negatives in a row" in capsys.readouterr().err
    assert not Path("my_study.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["text", "table.csv", "--compare", "mine.npy"], r"mine\.npy .*300 rows"),
        (["text", "table.csv", "--compare", "pairs.npy"], r"pairs\.npy .*300, 2, 4"),
        (["text", "table.csv", "--compare", "absent.npy"], r"absent\.npy"),
        (["text", "table.csv", "--compare", "open_clip:ViT-B-32"], r"weights is missing"),
        (["images", "pets", "--compare", "mine.npy"], r"mine\.npy, but 1 of 241 images"),
        (["pairs", "table.csv", "--images", "pets", "--compare", "mine.npy"], r"ViT-B-32,openai"),
    ],
)
def test_a_model_that_cannot_be_compared_is_refused(arguments, said, capsys):
    table = questions(300)
    if arguments[0] == "pairs":
        table = table.head(240).drop(columns="topic")
        table = table.assign(file=[f"{['cat', 'dog'][n % 2]}/{n}.png" for n in range(240)])
    table.to_csv("table.csv", index=False)
    photographs(Path("pets"), classes=("cat", "dog"))
    photographs(Path("pets"), 1, classes=("yak",))
    np.save("mine.npy", np.ones((299, 4)))
    np.save("pairs.npy", np.random.default_rng(0).normal(size=(300, 2, 4)))
    assert init(*arguments) == 1
    assert re.search(said, capsys.readouterr().err)
    assert not Path("my_study.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "section", "expected"),
    [
        (["images", "pets", "--compare", "resnet18"], "encoder", ("timm", "resnet18")),
        (
            ["images", "pets", "--compare", "open_clip:ViT-B-32,openai"],
            "encoder",
            ("open_clip", "ViT-B-32"),
        ),
        (
            ["text", "table.csv", "--compare", "my/folder"],
            "text_encoder",
            ("sentence_transformers", "my/folder"),
        ),
    ],
)
def test_a_model_is_compared_by_name_or_folder(arguments, section, expected):
    questions(300).to_csv("table.csv", index=False)
    photographs(Path("pets"), classes=("cat", "dog"))
    assert init(*arguments) == 0
    study = read_configuration(["my_study.yaml"]).studies["my_study"]
    (name,) = study.compared
    tower = study.sections_of(study.objectives[name])[section]
    assert (tower.name, tower.model) == expected
    assert tower.train == "none"


@pytest.mark.parametrize("form", ["labels", "pairs", "corpus"])
@pytest.mark.parametrize(
    ("arguments", "train", "head"),
    [
        ((), "none", "residual"),
        (("--train", "head"), "none", "residual"),
        (("--train", "all"), "all", "none"),
    ],
)
def test_a_head_or_all_layers_are_trained(form, arguments, train, head, capsys):
    place = "table.csv"
    if form == "labels":
        questions().to_csv(place, index=False)
    elif form == "pairs":
        table = questions().assign(answer=lambda rows: "We help with " + rows["message"])
        table[["message", "answer"]].to_csv(place, index=False)
    else:
        place = Path("corpus")
        (place / "qrels").mkdir(parents=True)
        texts = questions()[["id", "message"]].astype(str).set_axis(["_id", "text"], axis=1)
        texts.to_json(place / "queries.jsonl", orient="records", lines=True)
        answers = texts.assign(text="We help. " + texts["text"])
        answers.to_json(place / "corpus.jsonl", orient="records", lines=True)
        qrels = pd.DataFrame({"query-id": texts["_id"], "corpus-id": texts["_id"], "score": 1})
        qrels.to_csv(place / "qrels/test.tsv", sep="\t", index=False)
    assert init("text", place, *arguments) == 0
    study = read_configuration(["my_study.yaml"]).studies["my_study"]
    assert (study.text_encoder.train, study.projection.name) == (train, head)
    assert study.objectives["Guided"].guide.text_encoder.train == "none"
    said = capsys.readouterr().out
    assert ("all layers are trained" in said) == ("takes longer" in said) == (train == "all")


@pytest.mark.long
@pytest.mark.parametrize("form", ["labels", "pairs of texts", "images", "pairs"])
def test_the_written_study_runs_as_it_is(form, tmp_path):
    project = new_project(tmp_path / "project")
    if form == "images":
        photographs(project.path / "data", classes=("cat", "dog"))
        arguments = ["images", "data"]
    else:
        table = questions(240).assign(
            answer=lambda rows: "We help with " + rows["message"],
            file=[f"{n}.png" for n in range(240)],
        )
        photographs(project.path / "photos")
        dropped = {
            "labels": ["answer", "file"],
            "pairs of texts": ["topic", "file"],
            "pairs": ["topic", "answer"],
        }[form]
        table.drop(columns=dropped).to_csv(project.path / "table.csv", index=False)
        arguments = (
            ["pairs", "table.csv", "--images", "photos"]
            if form == "pairs"
            else ["text", "table.csv"]
        )
    done = project.trueneg("init", *arguments, "--minutes", "1", "--output", "study.yaml")
    assert done.returncode == 0, done.stderr
    done = project.trueneg("check", "study.yaml")
    assert done.returncode == 0, done.stderr
    project.run()
    assert (project.path / "results/index.html").is_file()
    done = project.trueneg("refit", "my_study", "refitted", "--method", "CL")
    assert done.returncode == 0, done.stderr
    cards = list(project.path.glob("refitted/*/README.md"))
    assert len(cards) == 1 + (form == "pairs")
    assert all("Trained on 240 of 240 samples" in card.read_text() for card in cards)
    listed = project.trueneg("runs", "my_study", "--csv", "runs.csv")
    assert listed.returncode == 0, listed.stderr
    refitted = pd.read_csv(project.path / "runs.csv").query("dataset == 'all data'")
    assert refitted["objective"].tolist() == ["CL"]
