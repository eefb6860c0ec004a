"""The how-tos that have their reader write code: what they show works as it stands there, and so does the tutorial."""

import sys

import pandas as pd
import pytest

from tests.docs.followed import follow, run_in, write_files
from tests.docs.pages import ROOT, blocks
from tests.projects import new_project

OWN_LOSS = """
import doctest, torch, yaml
import trueneg.losses.estimators.trimmed
from trueneg.losses import build
from trueneg.config.reading import read_configuration

assert build({{"name": "trim", "share": 0.2}}).estimator == trueneg.losses.estimators.trimmed.Trimmed(0.2)
study = read_configuration(["trim.yaml"]).studies["trim"]
assert study.objectives["Trimmed"].share == [0.05, 0.1, 0.2]
assert doctest.testmod(trueneg.losses.estimators.trimmed) == (0, 3)
{examples}
"""


@pytest.fixture
def project(tmp_path):
    return new_project(tmp_path / "project")


def test_the_own_loss_is_known_to_library_and_configuration(project):
    write_files("docs/own-loss.md", project)
    shown = [block for block in blocks(ROOT / "docs/own-loss.md") if block.language == "python" and not block.title]
    examples = "\n".join(block.text for block in shown)
    run_in(project, [sys.executable, "-c", OWN_LOSS.format(examples=examples)])
    said = run_in(project, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/losses/test_trimmed.py"])
    assert "8 passed" in said


@pytest.mark.long
def test_the_own_loss_becomes_a_study(project):
    follow("docs/own-loss.md", project)
    rows = pd.read_parquet(project.path / "results/trim/artefacts/rows.parquet")
    assert {"CL", "Oracle"} < set(rows["objective"])
    assert (project.path / "results/trim/tables/accuracy.tex").is_file()


@pytest.mark.long
def test_the_tutorial_ends_with_an_own_figure(project):
    follow("docs/tutorial.md", project)
    assert (project.path / "own_figure.png").stat().st_size > 5000
    assert len(list((project.path / "results/runs").glob("*/model.safetensors"))) == 9 + 9 + 3
