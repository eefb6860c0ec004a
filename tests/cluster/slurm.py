"""A running one-node Slurm and the records of its jobs."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.cluster.studies import PATIENCE
from tests.projects import Project

# Ask Slurm often.
QUICK = (
    "--slurm-init-seconds-before-status-checks",
    "2",
    "--default-resources",
    "slurm_partition=main",
)


class Slurm:
    """Run commands in the namespaces of Slurm's daemons.

    Args:
        process: id of the process that holds the namespaces.
    """

    def __init__(self, process: int):
        spaces = ("--mount", "--net", f"--pid=/proc/{process}/ns/pid_for_children")
        self._enter = ("nsenter", f"--target={process}", *spaces, "--", "env")

    @classmethod
    @contextlib.contextmanager
    def up(cls, script: Path) -> Iterator["Slurm"]:
        """Run Slurm for the duration of the block."""
        ready = subprocess.Popen(
            [script, "sh", "-c", "echo ready; exec sleep infinity"],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            if ready.stdout.readline() != "ready\n":
                raise AssertionError("Slurm did not start; see the output of the script")
            yield cls(ready.pid)
        finally:
            ready.kill()
            ready.wait()
            ready.stdout.close()

    def run(self, *command: str) -> str:
        return subprocess.run(
            [*self._enter, *command], check=True, capture_output=True, text=True
        ).stdout

    def submit(self, project: Project, *arguments: str) -> subprocess.Popen:
        """Start Snakemake with the project's cluster profile; its output goes to snakemake.txt
        there.
        """
        snakemake = [
            sys.executable,
            "-m",
            "snakemake",
            *arguments,
            "--workflow-profile",
            "profiles/slurm",
        ]
        path = f"{project.path / 'src'}:{os.environ.get('PYTHONPATH', '')}"
        with (project.path / "snakemake.txt").open("w") as printed:
            return subprocess.Popen(
                [
                    *self._enter,
                    f"--chdir={project.path}",
                    *snakemake,
                    "--configfile",
                    "study.yaml",
                    *QUICK,
                ],
                env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                stdout=printed,
                stderr=subprocess.STDOUT,
            )

    def jobs(self, project: Project, rule: str = "") -> list[dict[str, str]]:
        """Return Slurm's records of a project's jobs (of one rule or group), in the order of
        submission.
        """
        lines = self.run("scontrol", "--oneliner", "--details", "show", "jobs").splitlines()
        records = [
            dict(field.split("=", 1) for field in line.split() if "=" in field) for line in lines
        ]
        mine = [record for record in records if record.get("WorkDir") == str(project.path)]
        return sorted(
            (record for record in mine if record["Comment"].startswith(f"rule_{rule}")),
            key=lambda record: int(record["JobId"]),
        )


def finish(submitted: subprocess.Popen, project: Project) -> None:
    """Wait until Snakemake ends; raise if it fails."""
    if submitted.wait(PATIENCE):
        raise AssertionError((project.path / "snakemake.txt").read_text())


def devices(project: Project) -> dict[str, str]:
    """Return the visible devices of each job, by its id."""
    return dict(line.split() for line in (project.path / "devices.txt").read_text().splitlines())
