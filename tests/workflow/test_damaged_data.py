"""Studies on data of which a seventh is damaged: the check, the log and the page report what is
left out.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest

from tests.data.damaged_data import CLASSES, EACH, PAIRS, write_damaged_folder, write_damaged_table
from tests.projects import new_project
from tests.studies import tiny_study, tiny_words, tiny_world
from trueneg.data.images.image_source import read_source
from trueneg.data.pairs.pair_source import read_pairs
from trueneg.store.run_store import RunStore


def counts(sentence: str) -> tuple[int, int, int]:
    """Return the numbers of a sentence about what was skipped: how many, of how many, and the sum
    over kinds.
    """
    skipped, total, kinds = re.search(
        r"([\d,]+) of ([\d,]+) (?:rows|images) are skipped: (.*?)\.(?: |$)", sentence
    ).groups()
    return int(skipped), int(total), sum(map(int, re.findall(r"(?:^|, )(\d+) ", kinds)))


@pytest.mark.long
def test_an_image_study_leaves_out_a_seventh_and_says_so(tmp_path):
    project = new_project(tmp_path / "project")
    damaged = write_damaged_folder(project.path / "data/mine")
    dataset = {
        "source": "image_folder",
        "path": "data/mine",
        "resolution": 16,
        "test": 0.25,
        "validation": 0.1,
    }
    settings = {"rare_classes": [], "fraction": 1.0}
    study = tiny_study(
        dataset=dataset | settings | {"skip_incomplete": 0.2},
        augmentation={"name": "digits"},
        seeds=2,
    )
    study["training"]["batch_size"] = 16
    study["evaluation"]["linear_probe"]["label_fractions"] = [1.0]
    project.configure(own=study)
    checked = project.trueneg("check", "study.yaml")
    assert checked.returncode == 0, checked.stderr
    project.run()
    source = read_source(next((project.path / "results/sources").glob("*.npz")))
    assert len(source.images) == len(CLASSES) * EACH - damaged
    assert np.bincount(source.labels).tolist() == [EACH - 5] * len(CLASSES)
    assert counts(source.skipped) == (damaged, len(CLASSES) * EACH, damaged)
    logs = "".join(path.read_text() for path in (project.path / "results").rglob("*.log"))
    page = (project.path / "results/index.html").read_text()
    for shown in (checked.stdout, logs, page):
        assert source.skipped.rstrip(".") in shown
    for record in RunStore(project.path / "results/runs").records().values():
        assert record["source"]["skipped"] == source.skipped


@pytest.mark.long
def test_an_image_text_study_leaves_out_a_seventh_and_says_so(tmp_path):
    project = new_project(tmp_path / "project")
    wrong = write_damaged_table(project.path / "data/images", project.path / "data/table.csv")
    table = {
        "path": "data/images",
        "table": "data/table.csv",
        "patient_column": "patient",
        "skip_incomplete": 0.2,
    }
    words = tiny_words(reports={"source": "image_table", **table})
    words["language_models"]["BERT"]["vocabulary"] = 500
    dataset = {
        "source": "image_table",
        "text": "words",
        "resolution": 32,
        "colour": True,
        "test": 0.3,
    }
    world = tiny_world(dataset=dataset, figures={})
    world["objectives"] = {name: world["objectives"][name] for name in ("CL", "DCL-LM")}
    world["evaluation"] = {"retrieval": {"ks": [1]}}
    world["primary"] = {
        "task": "retrieval sentence",
        "metric": "R",
        "labels": "report",
        "direction": "text to image",
        "k": 1,
    }
    world["primary"] |= {"treatment": "DCL-LM", "baseline": "CL"}
    project.configure(words=words, world=world)
    checked = project.trueneg("check", "study.yaml")
    assert checked.returncode == 0, checked.stderr
    project.run()
    source = read_pairs(next((project.path / "results/pairs").glob("image_table-*px-??????.npz")))
    rows, images = (
        next(part for part in re.split(r"(?<=\.) ", source.skipped) if f" {unit} are" in part)
        for unit in ("rows", "images")
    )
    assert counts(rows) == (10, PAIRS, 10)
    assert counts(images) == (wrong["image"], PAIRS - 10, wrong["image"])
    kinds = [int(number) for number in re.findall(r"(?:: |, )(\d+) ", rows)]
    assert sorted(kinds) == sorted(count for kind, count in wrong.items() if kind != "image")
    assert len(source.images) == PAIRS - 20
    logs = "".join(path.read_text() for path in (project.path / "results").rglob("*.log"))
    page = (project.path / "results/index.html").read_text()
    for sentence in (rows, images):
        for shown in (checked.stdout, logs, page):
            assert sentence.rstrip(".") in shown
    scores = pd.read_parquet(project.path / "results/world/artefacts/rows.parquet")
    assert np.isfinite(scores["value"]).all()
    text = json.dumps(
        [record["source"] for record in RunStore(project.path / "results/runs").records().values()]
    )
    assert images in text
