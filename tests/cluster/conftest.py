"""A one-node Slurm for tests, and why there is none where there is none."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sbatch", "squeue", "unshare", "setpriv", "ip")
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--mount-proc", "mount", "-t", "tmpfs", "tmpfs", "/etc/slurm")


def reason_to_skip() -> str | None:
    """Why no Slurm can be brought up here, in a sentence; None if it can."""
    if os.geteuid() != 0:
        return "Slurm's daemons start as root only; run this test as root, in a container or a virtual machine."
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"Not installed here: {', '.join(absent)}. On Debian: apt-get install slurm-wlm munge iproute2."
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is None:
        return "Snakemake's Slurm plugin is not installed here; docs/cluster.md tells how to have it beside the environment."
    tried = subprocess.run(NAMESPACES, capture_output=True, text=True)
    if tried.returncode:
        return f"The daemons' namespaces cannot be made here: {tried.stderr.strip()}"
    return None


@pytest.fixture(scope="session")
def slurm() -> Path:
    """The script that runs a command on a one-node Slurm; skips the test where that cannot be."""
    reason = reason_to_skip()
    if reason:
        pytest.skip(reason)
    return Path(__file__).with_name("slurm.sh")
