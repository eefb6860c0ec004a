"""The how-tos of docs/extend.md: the files that they show work as they stand there."""

import sys

import pytest

from tests.docs.followed import run_in, write_files
from tests.projects import ROOT, new_project


@pytest.fixture
def project(tmp_path):
    """A copy of the project with the files of the page, and what their tests import."""
    project = new_project(tmp_path / "project")
    (project.path / "tests").mkdir()
    for name in ("__init__.py", "projects.py", "studies.py"):
        (project.path / "tests" / name).write_text((ROOT / "tests" / name).read_text())
    write_files("docs/extend.md", project)
    return project


def test_the_own_figure_is_found_and_draws_what_was_measured(project):
    said = run_in(project, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/report/test_every_seed.py"])
    assert "2 passed" in said
