"""Tiny workflows in copies of the project, in which tests may edit any file."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
# papers, studies
SHIPPED = [ROOT / "config/config.yaml", *sorted((ROOT / "config").glob("[ps]*/*.yaml"))]
PARTS = ("Snakefile", "rules", "workflow", "config", "profiles", "envs", "src")


@dataclass
class Project:
    """A copy of the project, with its own package and results."""

    path: Path
    python: str = sys.executable

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands: they import the copy's own package and ask no hub."""
        return os.environ | {
            "PYTHONPATH": str(self.path / "src"),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
        }

    def _command(self, *arguments: str) -> list[str]:
        return [
            self.python,
            "-m",
            "snakemake",
            *arguments,
            "--cores",
            "2",
            "--configfile",
            "study.yaml",
        ]

    def snakemake(self, *arguments: str, timeout: float = 1800) -> subprocess.CompletedProcess[str]:
        """Run Snakemake in the project's folder; the limit ends a hanging one only, since a loaded
        machine is slow.
        """
        run = {"capture_output": True, "text": True, "timeout": timeout}
        return subprocess.run(self._command(*arguments), cwd=self.path, env=self.environment, **run)

    def start(
        self, *arguments: str, stdout: Any = subprocess.DEVNULL, popen: Any = subprocess.Popen
    ) -> Any:
        """Start Snakemake in the project's folder and return its process."""
        return popen(
            self._command(*arguments),
            cwd=self.path,
            env=self.environment,
            stdout=stdout,
            stderr=stdout,
        )

    def trueneg(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command ``trueneg`` in the project's folder."""
        command = [self.python, "-m", "trueneg", *arguments]
        return subprocess.run(
            command, cwd=self.path, env=self.environment, capture_output=True, text=True
        )

    def run(self, *targets: str) -> str:
        """Make the targets; return what Snakemake printed."""
        done = self.snakemake(*targets)
        if done.returncode:
            raise AssertionError(done.stdout + done.stderr)
        return done.stdout + done.stderr

    def planned(self, *targets: str) -> dict[str, int]:
        """Return the number of jobs of each rule that a dry run plans."""
        return planned_jobs(self.snakemake(*targets, "--dry-run"))

    def configure(self, **studies) -> None:
        """Write the configuration: studies by name."""
        (self.path / "study.yaml").write_text(yaml.safe_dump(studies))

    def models(self) -> dict[str, int]:
        """Return the modification time of each run's model, by the run's id."""
        return {
            path.parent.name: path.stat().st_mtime_ns
            for path in self.path.glob("results/runs/*/model.safetensors")
        }

    def copy(self, path: Path) -> "Project":
        """Copy the project, with its results and Snakemake's records."""
        shutil.copytree(self.path, path, symlinks=True)
        return Project(path)


def planned_jobs(dry_run: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """Return the number of jobs of each rule from the output of a dry run."""
    text = dry_run.stdout + dry_run.stderr
    if dry_run.returncode:
        raise AssertionError(text)
    counts = re.findall(r"^(\w+) +(\d+)$", text, flags=re.MULTILINE)
    return {rule: int(count) for rule, count in counts if rule != "total"}


def new_project(path: Path) -> Project:
    path.mkdir(parents=True)
    # bytecode is copied, so that it is not compiled again
    ignored = shutil.ignore_patterns("*.egg-info")
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, path / part, ignore=ignored)
        else:
            shutil.copy2(ROOT / part, path / part)
    return Project(path)
