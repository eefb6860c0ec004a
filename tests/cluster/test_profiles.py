"""The profiles are consistent with each other and with the rules."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
import yte

from tests.projects import ROOT

RULES = {
    name: body
    for path in sorted((ROOT / "rules").glob("*.smk"))
    for name, body in re.findall(
        r"^rule (\w+):\n((?:(?:    .*)?\n)+)", path.read_text(), flags=re.MULTILINE
    )
}


def profile(name: str) -> dict:
    with (ROOT / "profiles" / name / "profile.yaml").open() as file:
        return yte.process_yaml(file, require_use_yte=True)


def path_with_sacct(folder: Path, status: int) -> str:
    """Return a PATH whose sacct exits with this status."""
    (folder / "sacct").write_text(f"#!/bin/sh\nexit {status}\n")
    (folder / "sacct").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize("rule", RULES)
def test_memory_and_time_of_a_job_grow_with_the_attempt(rule):
    assert RULES[rule].count("**growing(") == 1


def test_job_states_come_from_squeue_if_sacct_fails(monkeypatch, tmp_path):
    for status, expected in ((0, "sacct"), (1, "squeue"), (127, "squeue")):
        monkeypatch.setenv("PATH", path_with_sacct(tmp_path, status))
        assert profile("slurm")["slurm-status-command"] == expected


def test_the_profiles_differ_only_in_settings_of_the_scheduler():
    default, slurm, generic = (profile(name) for name in ("default", "slurm", "cluster-generic"))
    schedulers = re.compile(
        "executor|jobs|slurm-|cluster-generic-|default-resources|max-status-checks"
    )
    shared = [
        {key: given for key, given in each.items() if not schedulers.match(key)}
        for each in (slurm, generic)
    ]
    assert shared[0] == shared[1]
    assert {key: given for key, given in default.items() if key != "cores"}.items() <= slurm.items()


def test_grouped_jobs_run_one_after_the_other():
    for name in ("slurm", "cluster-generic"):
        given = profile(name)
        assert given["set-resources"] == {rule: {"in_turn": 1} for rule in given["groups"]}
        assert set(given["groups"]) <= set(RULES)
        assert set(given["groups"].values()) == set(given["group-components"])


def test_the_commands_of_the_generic_profile_can_be_run():
    given = yaml.safe_load((ROOT / "profiles/cluster-generic/profile.yaml").read_text())
    for command in ("submit", "status", "cancel"):
        path = ROOT / given[f"cluster-generic-{command}-cmd"].split()[0]
        assert os.access(path, os.X_OK)
        subprocess.run(["sh", "-n", path], check=True)
