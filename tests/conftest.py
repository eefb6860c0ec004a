"""Fixtures that several folders of tests use."""

import os

import pytest
from hypothesis import settings

from tests.projects import Project, new_project
from tests.studies import tiny_study

# Elsewhere every run tries other examples; continuous integration says the same of the same commit.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture(scope="session")
def finished_project(tmp_path_factory) -> Project:
    """A project whose tiny study ran to the end; tests work on copies of it."""
    project = new_project(tmp_path_factory.mktemp("finished") / "project")
    project.configure(tiny=tiny_study())
    project.run()
    return project


@pytest.fixture
def project(finished_project, tmp_path) -> Project:
    """A copy of the finished project, to be changed."""
    return finished_project.copy(tmp_path / "project")
