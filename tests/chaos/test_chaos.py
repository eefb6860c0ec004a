"""A pipeline whose processes are killed at random ends with the results of an uninterrupted one;
chaos.py can kill more often and for longer.
"""

import json
import subprocess
import sys

import pytest

from tests.projects import ROOT


def chaos(folder, *arguments):
    """Run chaos.py in its own process, which adopts the children of killed processes; return its
    report.
    """
    report = folder / "chaos.json"
    command = [sys.executable, "-m", "tests.chaos.chaos", "--folder", folder, "--report", report]
    done = subprocess.run(
        [*command, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=3600
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    return json.loads(report.read_text())


@pytest.mark.long
def test_ten_kills_of_random_processes_lose_nothing(tmp_path):
    assert chaos(tmp_path, "--kills", "10", "--seed", "1")["kills"] == 10


@pytest.mark.long
def test_two_studies_that_share_runs_lose_nothing_in_three_minutes_of_kills(tmp_path):
    assert chaos(tmp_path, "--minutes", "3", "--seed", "2")["kills"] > 3
