"""Follow a page as a reader would: write its files, apply its diffs and run its commands, in
order.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT, blocks
from tests.projects import Project


def write_files(page: str, project: Project, section: str = "") -> None:
    """Write the files that a page, or one of its sections, shows, and apply its diffs."""
    follow(page, project, section, commands=False)


def follow(page: str, project: Project, section: str = "", commands: bool = True) -> None:
    """Follow all steps of a page, or of one of its sections, in order."""
    for block in blocks(ROOT / page, section):
        path = project.path / block.title
        if block.language == "diff":
            _run(["git", "apply", "-"], project.path, input=block.text)
        elif block.title:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.language == "bash" and commands:
            run_in(project, ["bash", "-euo", "pipefail", "-c", block.text])


def run_in(project: Project, command: list[str]) -> str:
    """Run a command in a project with this Python and the project's own package; return its
    output.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": str(project.path / "src"),
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
    }
    return _run(command, project.path, env=environment)


def _run(command: list[str], folder: Path, **options) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr
