"""Fixtures that several folders of tests use."""

import os

import pytest
from hypothesis import settings

from tests.projects import Project, new_project
from tests.studies import tiny_study
from trueneg.shared_cache import one_at_a_time

# Elsewhere every run tries other examples; continuous integration says the same of the same commit.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def finished_project(tmp_path_factory) -> Project:
    """A project whose tiny study ran to the end; tests work on copies of it. Workers that run side by side make it once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "finished"
    with one_at_a_time(folder):
        if not (folder / "whole").exists():
            project = new_project(folder / "project")
            project.configure(tiny=tiny_study())
            project.run()
            (folder / "whole").touch()
    return Project(folder / "project")


@pytest.fixture
def project(finished_project, tmp_path) -> Project:
    """A copy of the finished project, to be changed."""
    return finished_project.copy(tmp_path / "project")
