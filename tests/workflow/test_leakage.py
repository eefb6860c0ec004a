"""Noise with arbitrary labels, a part of whose training images are test images, too, never gives an
answer on what was trained on.
"""

import numpy as np
import pandas as pd
import pytest

from tests.data.test_leakage import shared_with, write_noise
from tests.projects import new_project
from tests.studies import tiny_study


@pytest.mark.long
def test_noise_whose_test_images_are_training_images_gives_no_answer(tmp_path):
    project = new_project(tmp_path / "project")
    write_noise(project.path / "own", np.random.default_rng(0), 120, 40, 40)
    dataset = {"source": "image_folder", "path": "own", "resolution": 8, "validation": 0.2}
    training = {"epochs": 5, "batch_size": 32, "device": "cpu"}
    changes = {"objectives": {"CL": {"name": "cl"}, "Oracle": {"name": "oracle"}}, "seeds": 2}
    changes["primary"] = tiny_study()["primary"] | {"treatment": "Oracle"}
    changes["augmentation"] = {"name": "color"}
    study = tiny_study(dataset=dataset, training=training, **changes)
    project.configure(tiny=study)
    checked = project.trueneg("check", "study.yaml")
    assert checked.returncode == 1
    assert shared_with(checked.stderr) == {"images": (40, 40)}
    assert project.snakemake("--cores", "1").returncode
    assert not project.models()
    logs = project.path / "results/tiny/logs/subsets"
    assert shared_with(next(logs.rglob("*.log")).read_text()) == {"images": (40, 40)}

    accuracy = {}
    for leakage in ("allow", "leave_out"):
        project.configure(tiny=study | {"dataset": dataset | {"leakage": leakage}})
        project.run()
        rows = pd.read_parquet(project.path / "results/tiny/artefacts/rows.parquet")
        chosen = (
            (rows["task"] == "knn") & (rows["split"] == "test") & (rows["metric"] == "accuracy")
        )
        accuracy[leakage] = rows.loc[chosen, "value"].mean()
        assert shared_with(next(logs.rglob("*.log")).read_text()) == {"images": (40, 40)}
        page = (project.path / "results/index.html").read_text()
        assert shared_with(page) == {"images": (40, 40)}
        assert ("left out: 40 of train" in page) == (leakage == "leave_out")
    noise = 2 * np.sqrt(0.25 / 40)  # two standard errors
    assert accuracy["leave_out"] < 0.5 + noise < accuracy["allow"]
    assert "not clearly above chance" in page
