"""The how-tos that have their reader write code: what they show works as it stands there, and so does the tutorial."""

import sys

import pandas as pd
import pytest

from tests.docs.followed import follow, run_in, write_files
from tests.projects import new_project

OWN_EVALUATION = """
import doctest, torch
import trueneg.evaluation.protocol, trueneg.evaluation.uniformity
from trueneg.report.metrics import higher_is_better

assert doctest.testmod(trueneg.evaluation.uniformity) == (0, 1)
points = torch.randn(20, 3)
directions = points / points.norm(dim=1, keepdim=True)
pairs = [torch.exp(-2 * (directions[i] - directions[j]).square().sum()) for i in range(20) for j in range(i)]
torch.testing.assert_close(torch.tensor(trueneg.evaluation.uniformity.uniformity(points)), torch.stack(pairs).mean().log())
assert not higher_is_better("uniformity")
"""


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def test_the_own_evaluation_measures_what_it_says(project):
    write_files("docs/own-evaluation.md", project)
    run_in(project, [sys.executable, "-c", OWN_EVALUATION])


@pytest.mark.long
def test_the_tutorial_ends_with_an_own_figure_and_its_study_takes_an_own_evaluation(project):
    follow("docs/tutorial.md", project)
    assert (project.path / "own_figure.png").stat().st_size > 5000
    assert len(list((project.path / "results/runs").glob("*/model.safetensors"))) == 9 + 9 + 3
    follow("docs/own-evaluation.md", project)
    rows = pd.read_parquet(project.path / "results/first/artefacts/rows.parquet")
    assert (rows.query("metric == 'uniformity'")["value"] < 0).all()
    assert len(rows.query("metric == 'uniformity'")) == 4 * 3 * 2
