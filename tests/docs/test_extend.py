"""The how-tos of docs/extend.md work as they stand there, and touch only new files."""

import sys

import pandas as pd
import pytest

from tests.docs.followed import follow, run_in, write_files
from tests.projects import new_project

MEASURED = """
import torch
from trueneg.config.image_study import EvaluationSettings
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.evaluation.evaluate import rows_of
from trueneg.evaluation.images import EncodedRun
from trueneg.report.metrics import higher_is_better
from trueneg.specs import tasks

source = load_source("digits", resolution=None)
subset = make_subset(source, seed=0, rare_classes=[], fraction=1.0, test=0.25, validation=0.1)
same = torch.ones(len(source.labels), 4)
run = EncodedRun("abc", subset, source, same, torch.from_numpy(source.labels))
rows = list(rows_of("trueneg.evaluation.images", [run], {"knn": None, "linear_probe": None, "mean_classifier": None}))
assert [(row["task"], row["split"]) for row in rows] == [("spread", "validation"), ("spread", "test")]
assert all(abs(row["value"]) < 1e-6 for row in rows)  # all features are one: log 1
assert not higher_is_better("uniformity")
assert tasks.measured(EvaluationSettings(), tasks.IMAGES)["spread"] == {}
"""


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def test_the_task_is_found_measured_and_shown(project):
    write_files("docs/extend.md", project)
    run_in(project, [sys.executable, "-c", MEASURED])
    test = "tests/evaluation/test_uniformity.py"
    assert "1 passed" in run_in(project, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test])


@pytest.mark.long
def test_the_tutorials_study_takes_the_task(project):
    follow("docs/tutorial.md", project)
    follow("docs/extend.md", project)
    rows = pd.read_parquet(project.path / "results/first/artefacts/rows.parquet").query("metric == 'uniformity'")
    assert (rows["value"] < 0).all()
    assert len(rows) == 4 * 3 * 2
