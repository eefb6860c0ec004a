"""Tiny workflows in copies of the project, in which tests may edit any file."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
PARTS = ("Snakefile", "rules", "workflow", "config", "profiles", "envs", "src")


@dataclass
class Project:
    """A copy of the project, with its own package and results."""

    path: Path

    def snakemake(self, *arguments: str, timeout: float = 500) -> subprocess.CompletedProcess[str]:
        """Run Snakemake in the copy, with the copy's package and without access to the hub."""
        environment = os.environ | {"PYTHONPATH": str(self.path / "src"), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
        return subprocess.run(
            [sys.executable, "-m", "snakemake", *arguments, "--cores", "2", "--configfile", "study.yaml"],
            cwd=self.path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def run(self, *targets: str) -> str:
        """Make the targets, and return Snakemake's output."""
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
        return {path.parent.name: path.stat().st_mtime_ns for path in self.path.glob("results/runs/*/model.safetensors")}

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
    ignored = shutil.ignore_patterns("*.egg-info")  # bytecode is copied, so that it is not compiled again
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, path / part, ignore=ignored)
        else:
            shutil.copy2(ROOT / part, path / part)
    return Project(path)
