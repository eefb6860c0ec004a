"""A user's images and texts, from a folder and a table to tables and the page, with the template
config/studies/own_data.yaml.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.data.official_layouts import write_image_table
from tests.data.pictures import write_picture
from tests.projects import ROOT, new_project
from trueneg.cli.main import main
from trueneg.data.pairs.pair_source import read_pairs

IMAGES = 80
TINY = {
    "encoder": {"name": "small", "width": 4},
    "text_encoder": {
        "name": "small",
        "hidden": 16,
        "layers": 1,
        "heads": 2,
        "pooling": "mean",
        "truncate": True,
    },
    "projection": {"dimensions": 16},
}


@pytest.fixture
def project(tmp_path):
    """A project with a small version of the template on 80 images of two classes, five per
    patient.
    """
    project = new_project(tmp_path / "project")
    folder = project.path / "data/mine"
    write_image_table(folder / "images", folder / "table.csv", IMAGES)
    studies = yaml.safe_load((ROOT / "config/studies/own_data.yaml").read_text())
    studies["my_text"]["language_models"]["BERT"] |= {
        "epochs": 1,
        "hidden": 16,
        "layers": 1,
        "vocabulary": 300,
    }
    studies["my_study"] |= {**TINY, "seeds": 2}
    for objective in ("ReCo", "Same-left-out"):
        del studies["my_study"]["objectives"][objective]
    studies["my_study"]["dataset"] |= {"resolution": 32, "label_columns": ["mass", "fracture"]}
    studies["my_study"]["training"] |= {"epochs": 1, "batch_size": 16, "warmup_updates": 1}
    project.configure(**studies)
    return project


@pytest.mark.long
def test_a_folder_and_a_table_become_a_study_that_notices_an_edited_image(
    project, monkeypatch, capsys
):
    project.run()
    results = project.path / "results"
    (path,) = (results / "pairs").glob("image_table-32px-??????.npz")
    source = read_pairs(path)
    assert len(source.images) == IMAGES
    assert source.label_names == ("mass", "fracture")
    rows = pd.read_parquet(results / "my_study/artefacts/rows.parquet")
    assert {"retrieval sentence", "linear probe"} <= set(rows["task"])
    assert np.isfinite(rows["value"]).all()
    assert "<b>mass</b>" not in (results / "index.html").read_text()
    assert (results / "my_study/tables/tasks.csv").is_file()
    assert project.planned() == {}
    monkeypatch.chdir(project.path)
    picture = project.path / "data/mine/images/1/1.png"
    picture.touch()
    assert project.planned() == {}
    write_picture(picture, IMAGES)
    planned = project.planned()
    assert {"pairs", "subsets", "train"} <= set(planned)
    assert not {"captions", "language_model", "score"} & set(planned)
    assert main(["check", "study.yaml"]) == 0
    checked = capsys.readouterr().out
    assert re.search(rf"data changed: .*{IMAGES} images in data/mine/images", checked)
    assert "sentences up to date; scored by 1 of 1" in checked
    assert "to be read again" in checked


def test_a_shortened_table_is_read_again_but_a_touched_one_is_not(project):
    sentences = "results/my_text/text/image_table/sentences.parquet"
    project.run(sentences)
    table = project.path / "data/mine/table.csv"
    table.touch()
    assert project.planned(sentences) == {}
    table.write_text("".join(table.read_text().splitlines(keepends=True)[: IMAGES // 2 + 1]))
    assert project.planned(sentences) == {"captions": 1}


def test_a_missing_label_column_is_refused_before_anything_runs(project, monkeypatch, capsys):
    table = project.path / "data/mine/table.csv"
    table.write_text(table.read_text().replace("fracture", "break", 1))
    done = project.snakemake("--dry-run")
    assert done.returncode
    expected = re.compile(r"table\.csv: .*fracture.*found image, text, patient, mass, break")
    assert expected.search(done.stdout + done.stderr)
    assert not list((project.path / "results").glob("*"))
    monkeypatch.chdir(project.path)
    assert main(["check", "study.yaml"]) == 1
    assert expected.search(capsys.readouterr().err)


def test_a_row_that_cannot_be_used_is_refused_before_anything_runs(project):
    table = project.path / "data/mine/table.csv"
    table.write_text(table.read_text().replace("0/0.png", "0/none.png"))
    done = project.snakemake("rows")
    assert done.returncode != 0
    assert re.search(
        r"table\.csv: line 2: image is '0/none\.png'.*data/mine/images", done.stdout + done.stderr
    )
    assert not list((project.path / "results").glob("*"))


@pytest.mark.long
def test_hard_negatives_are_trained_on_and_part_of_what_a_run_is(project):
    place = project.path / "data/mine/table.csv"
    table = pd.read_csv(place)
    # images that show the other text
    table["negative"] = table["image"].shift(-5, fill_value="0/0.png")
    table["negatives"] = [json.dumps([name, "nowhere.png"]) for name in table["image"].shift(-7)]
    table.loc[table.index[-7:], "negatives"] = ""
    table.to_csv(place, index=False)
    studies = yaml.safe_load((project.path / "study.yaml").read_text())
    studies["my_text"]["reports"]["split_sentences"] = False
    studies["my_study"]["dataset"]["negative_image_columns"] = ["negative", "negatives"]
    project.configure(**studies)
    checked = project.trueneg("check", "study.yaml")
    assert checked.returncode == 0, checked.stderr
    assert "47 negatives" in checked.stdout  # 16 pairs with two hard negatives each
    project.run()
    runs = set(project.models())
    (path,) = (project.path / "results/pairs").glob("image_table-32px-??????.npz")
    source = read_pairs(path)
    assert source.negatives.shape == (IMAGES, 2)
    page = (project.path / "results/index.html").read_text()
    for shown in (checked.stdout, page):
        assert f"Hard negatives that are the image of no row are left out: {IMAGES - 7}" in shown
        assert "hard negatives are left out, because they are not images of the training" in shown
    table["negative"] = table["image"].shift(-3, fill_value="0/0.png")
    table.to_csv(place, index=False)
    project.run("models")
    assert len(project.models().keys() - runs) == len(runs)
