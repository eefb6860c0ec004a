"""A pipeline whose processes are killed at random ends with the results of an uninterrupted one;
chaos.py can kill more often.
"""

import subprocess
import sys

import pytest

from tests.projects import ROOT


@pytest.mark.long
def test_ten_kills_of_random_processes_lose_nothing(tmp_path):
    """Runs in its own process, which adopts the children of killed processes."""
    command = [
        sys.executable,
        "-m",
        "tests.chaos.chaos",
        "--kills",
        "10",
        "--seed",
        "1",
        "--folder",
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert '"kills": 10' in done.stdout
