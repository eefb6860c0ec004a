"""The steps of the tutorial work."""

import pytest

from tests.docs.followed import follow
from tests.projects import new_project


@pytest.mark.long
def test_the_tutorial_ends_with_a_figure(tmp_path):
    project = new_project(tmp_path / "project")
    follow("docs/tutorial.md", project)
    assert (project.path / "own_figure.png").stat().st_size > 5000
    assert len(list((project.path / "results/runs").glob("*/model.safetensors"))) == 9 + 9 + 3
