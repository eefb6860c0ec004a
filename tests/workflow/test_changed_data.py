"""Data files that are edited in place: what Snakemake plans and what ``trueneg`` reports, in real
workflows on users' files.
"""

import csv
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import save_file

from tests.data.image_layouts import pngs, random_images, write_parquet
from tests.projects import Project, new_project
from tests.studies import tiny_study, tiny_words
from trueneg.cli.main import main
from trueneg.data.user_files import DataChanges
from trueneg.report.build import write_page

TRAIN = "data/own/train.parquet"
IMAGES, LABELS = pngs(random_images(120, (8, 8, 3))), np.arange(120) % 4


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """A project with the rows and a table of a study on two parquet files of images."""
    project = new_project(tmp_path_factory.mktemp("own") / "project")
    (project.path / TRAIN).parent.mkdir(parents=True)
    write_parquet(project.path / TRAIN, IMAGES[:80], LABELS[:80])
    write_parquet(project.path / "data/own/test.parquet", IMAGES[80:], LABELS[80:])
    study = tiny_study(
        dataset={
            "source": "parquet",
            "path": "data/own",
            "rare_classes": [2, 3],
            "fraction": 0.5,
            "validation": 0.2,
        },
        training={"epochs": 1, "batch_size": 16, "device": "cpu"},
        augmentation={"name": "none"},
    )
    del study["objectives"]["DCL-true"]
    study["primary"]["treatment"] = "Oracle"
    project.configure(own=study)
    project.run("results/own/tables/accuracy.csv")
    return project


@pytest.fixture
def project(evaluated, tmp_path, monkeypatch):
    """A copy of it, as the working directory."""
    monkeypatch.chdir(evaluated.copy(tmp_path / "project").path)
    return Project(Path.cwd())


@pytest.fixture
def trueneg(capsys):
    """Run the command ``trueneg`` and return what it printed."""

    def run(*arguments: str) -> str:
        assert main(arguments) == 0
        return capsys.readouterr().out

    return run


def states(trueneg) -> dict[str, str]:
    """State of each run, by id."""
    return {run["run"]: run["state"] for run in json.loads(trueneg("runs", "--json", "-"))}


@pytest.mark.long
def test_touched_data_plan_nothing(project, trueneg):
    os.utime(project.path / TRAIN)
    assert project.planned("rows") == {}
    assert "data changed" not in trueneg("check", "study.yaml")
    assert set(states(trueneg).values()) == {"finished"}


@pytest.mark.long
def test_shuffled_labels_train_new_runs_and_keep_the_old_ones(project, trueneg):
    old = project.models()
    write_parquet(
        project.path / TRAIN, IMAGES[:80], np.random.default_rng(0).permutation(LABELS[:80])
    )
    assert project.planned("rows") == {
        "source": 1,
        "subsets": 1,
        "train": 2,
        "evaluate": 2,
        "compare": 1,
        "rows": 1,
    }
    checked = trueneg("check", "study.yaml")
    assert f"data changed: {TRAIN}" in checked
    assert "(1 of 2 files)" in checked
    assert f"{len(old)} runs to train" in checked
    assert set(states(trueneg).values()) == {"finished, data changed"}
    assert f"data changed: {TRAIN}" in trueneg("why", "results/own/tables/accuracy.csv")
    write_page("results/index.html")
    page = Path("results/index.html").read_text()
    assert f"{len(old)} of {len(old)} runs: data changed: {TRAIN} changed" in page
    assert f"data changed: {len(old)} of {len(old)} runs" in page
    project.run("models")
    new = project.models().keys() - old.keys()
    assert len(new) == len(old)
    assert old.items() <= project.models().items()
    assert states(trueneg) == dict.fromkeys(old, "finished, data changed") | dict.fromkeys(
        new, "finished"
    )
    assert project.planned("models") == {}


@pytest.mark.long
def test_a_changed_file_of_features_trains_only_its_runs_again(project, trueneg):
    study = yaml.safe_load((project.path / "study.yaml").read_text())["own"]
    vectors = {"name": "vectors", "path": "data/features.safetensors"}
    study["objectives"]["Guided"] = {
        "name": "guided",
        "margin": 0.1,
        "guide": {"name": "encoder", "encoder": vectors},
    }
    project.configure(own=study)
    features = torch.randn(2, 120, 4)
    save_file({"images": features[0].clone()}, "data/features.safetensors")
    project.run("rows")
    old = project.models()
    os.utime("data/features.safetensors")
    assert project.planned("rows") == {}
    save_file({"images": features[1].clone()}, "data/features.safetensors")
    planned = project.planned("rows")
    assert (planned["train"], planned["evaluate"]) == (1, 1)
    assert "2 of 6 runs: data changed: data/features.safetensors" in trueneg("check", "study.yaml")
    assert sorted(states(trueneg).values()) == ["finished"] * 4 + ["finished, data changed"] * 2
    project.run("models")
    assert len(project.models().keys() - old.keys()) == 2
    assert project.planned("models") == {}


@pytest.mark.long
def test_drawing_does_not_need_the_data(project, trueneg):
    shutil.rmtree(project.path / "data")
    (project.path / "results/own/tables/accuracy.csv").unlink()
    assert project.planned("results/own/tables/accuracy.csv") == {"draw_own": 1}
    assert set(states(trueneg).values()) == {"finished"}


def test_check_and_snakemake_agree_on_which_reports_are_read_again(tmp_path, monkeypatch, trueneg):
    project = new_project(tmp_path / "project")
    monkeypatch.chdir(project.path)
    table, copy = project.path / "data/table.csv", project.path / "data/copy.csv"
    (project.path / "data/images").mkdir(parents=True)
    for number in range(200):
        (project.path / f"data/images/{number}.png").touch()
    with table.open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [["image", "text"], *([f"{n}.png", f"There are {n} nodules."] for n in range(200))]
        )
    reports = {"source": "image_table", "path": "data/images", "table": "data/table.csv"}
    project.configure(words=tiny_words(reports=reports))
    sentences = "results/words/text/image_table/sentences.parquet"
    project.run(sentences)
    assert "sentences up to date" in trueneg("check", "study.yaml")
    shutil.copy2(table, copy)
    table.write_text("".join(table.read_text().splitlines(keepends=True)[:101]))
    for path in ("data/table.csv", "data/copy.csv"):
        project.configure(words=tiny_words(reports=reports | {"table": path}))
        assert project.planned(sentences) == {"captions": 1}
        checked = trueneg("check", "study.yaml")
        assert "sentences outdated" in checked
        assert path in checked
    changes = DataChanges(Path("results")).of_reports("words")
    assert any("data/table.csv changed" in change for change in changes)
