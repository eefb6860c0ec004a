"""A one-node Slurm for tests, which are skipped with a reason where it cannot start."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.slurm import Slurm
from tests.cluster.studies import interruptible_study
from tests.projects import Project, new_project

SCRIPT = Path(__file__).with_name("slurm.sh")
PROGRAMS = (
    "munged",
    "mungekey",
    "slurmctld",
    "slurmd",
    "sbatch",
    "squeue",
    "unshare",
    "nsenter",
    "setpriv",
    "ip",
)
NAMESPACES = (
    "unshare",
    "--mount",
    "--net",
    "--pid",
    "--fork",
    "--mount-proc",
    "mount",
    "-t",
    "tmpfs",
    "tmpfs",
    "/etc/slurm",
)


def reason_to_skip() -> str | None:
    """Return why Slurm cannot be started here; None if it can."""
    if os.geteuid() != 0:
        return (
            "Slurm's daemons start as root only; run this test as root, in a container or a virtual"
            " machine."
        )
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return (
            f"Not installed here: {', '.join(absent)}. On Debian: apt-get install slurm-wlm munge"
            " iproute2."
        )
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        return (
            "Snakemake's Slurm plugin is not installed here; `make test-cluster` fetches it into a"
            " folder of its own."
        )
    tried = subprocess.run(NAMESPACES, capture_output=True, text=True)
    if tried.returncode:
        return f"The daemons' namespaces cannot be created here: {tried.stderr.strip()}"
    return None


@pytest.fixture(scope="session")
def script() -> Path:
    """The script that runs Slurm while a command runs; skips the test if Slurm cannot be
    started.
    """
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    return SCRIPT


@pytest.fixture(scope="session")
def slurm(script: Path) -> Iterator[Slurm]:
    """A Slurm that all tests share."""
    with Slurm.up(script) as running:
        yield running


@pytest.fixture(scope="session")
def local(tmp_path_factory) -> Project:
    """The finished study of these tests, run without a cluster and without interruption."""
    project = new_project(tmp_path_factory.mktemp("local") / "project")
    project.configure(tiny=interruptible_study())
    for target in ("models", "rows"):
        project.run(target)
    return project
