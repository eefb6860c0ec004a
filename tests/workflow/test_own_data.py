"""Own images and texts, from a folder and a table to tables and the page, with the template that the how-to tells to copy."""

import numpy as np
import pandas as pd
import pytest
import yaml

from tests.datasets.official_layouts import write_image_table
from tests.projects import ROOT, new_project
from trueneg.datasets.pairs import read_pairs

IMAGES = 80
TINY = {
    "encoder": {"name": "small", "width": 4},
    "text_encoder": {"name": "small", "hidden": 16, "layers": 1, "heads": 2, "pooling": "mean", "truncate": True},
    "projection": {"dimensions": 16},
}


@pytest.fixture
def project(tmp_path):
    """A project whose study is the template, made small, on 80 images of two kinds, four patients' five each."""
    made = new_project(tmp_path / "project")
    folder = made.path / "data/mine"
    write_image_table(folder / "images", folder / "table.csv", IMAGES)
    studies = yaml.safe_load((ROOT / "config/studies/own_data.yaml").read_text())
    studies["my_text"]["language_models"]["BERT"] |= {"epochs": 1, "hidden": 16, "layers": 1, "vocabulary": 300}
    studies["my_study"] |= {**TINY, "seeds": 2}
    for more in ("ReCo", "Same-left-out"):
        del studies["my_study"]["objectives"][more]
    studies["my_study"]["dataset"] |= {"resolution": 32, "label_columns": ["mass", "fracture"]}
    studies["my_study"]["training"] |= {"epochs": 1, "batch_size": 16, "warmup_updates": 1}
    made.configure(**studies)
    return made


@pytest.mark.long
def test_a_folder_and_a_table_become_a_study(project):
    project.run()
    results = project.path / "results"
    (path,) = (results / "pairs").glob("image_table-32px-??????.npz")
    source = read_pairs(path)
    assert len(source.images) == IMAGES
    assert source.label_names == ("mass", "fracture")
    rows = pd.read_parquet(results / "my_study/artefacts/rows.parquet")
    assert {"retrieval sentence", "linear probe", "chance"} <= set(rows["task"])
    assert np.isfinite(rows["value"]).all()
    assert "<b>mass</b>" not in (results / "index.html").read_text()
    assert (results / "my_study/tables/tasks.csv").is_file()
    assert project.planned() == {}


def test_what_is_wrong_with_the_table_is_told_by_the_job_that_reads_it(project):
    table = project.path / "data/mine/table.csv"
    table.write_text(table.read_text().replace("0/0.png", "0/none.png"))
    done = project.snakemake("rows")
    assert done.returncode != 0
    (log,) = (project.path / "results/my_text/logs/sentences").glob("*.log")
    assert "table.csv: line 2: image is 0/none.png, but data/mine/images/0/none.png is not there." in log.read_text()
