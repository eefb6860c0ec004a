"""Fixtures shared by several folders of tests."""

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

import trueneg
from tests.projects import Project, new_project
from tests.studies import tiny_study

# Commands that tests start import the package that the tests import.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(Path(trueneg.__file__).parents[1]), os.environ.get("PYTHONPATH")])
)

# `make test` is deterministic: the same examples in every run, and no limit of time, which a busy
# machine would exceed. `make test-long` explores: --hypothesis-profile=explore with a
# --hypothesis-seed, which the fuzz tests use too.
UNTIMED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **UNTIMED)
settings.register_profile("explore", print_blob=True, **UNTIMED)
settings.load_profile("same")
# Hypothesis also draws constants from the source of the project's imported modules; which are
# imported depends on earlier tests. The name is private: a release without it runs the tests, with
# examples that may depend on their order.
if hasattr(providers, "_get_local_constants"):
    pytest.MonkeyPatch().setattr(providers, "_get_local_constants", providers.Constants)


def pytest_collection_modifyitems(items):
    """Run files with whole studies first, so that no worker is left alone with them at the end.

    The first file makes the finished project; the second is the documentation, which does not wait
    for it.
    """
    first = ["test_workflow.py", "docs", "workflow"]
    places = [[name in (item.path.name, item.path.parent.name) for name in first] for item in items]
    order = [place.index(True) if any(place) else len(first) for place in places]
    items[:] = [
        item for _, item in sorted(zip(order, items, strict=True), key=lambda each: each[0])
    ]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Seed the global generators, so that no test depends on the tests before it."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.fixture
def exploration_seed(request) -> int:
    """Seed of the random inputs of a long test: ``--hypothesis-seed``, or 1."""
    return int(request.config.getoption("--hypothesis-seed") or 1)


@pytest.fixture(scope="session")
def finished_project(tmp_path_factory) -> Project:
    """A project with a finished tiny study, made once for all workers; tests work on copies of
    it.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "finished"
    with FileLock(folder / "lock"):
        if not (folder / "whole").exists():
            project = new_project(folder / "project")
            project.configure(tiny=tiny_study())
            project.run()
            (folder / "whole").touch()
    return Project(folder / "project")


@pytest.fixture
def project(finished_project, tmp_path) -> Project:
    """A copy of the finished project that the test may change."""
    return finished_project.copy(tmp_path / "project")
