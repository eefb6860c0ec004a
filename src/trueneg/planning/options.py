"""Refuse options of Snakemake that would lose results or report files that do not exist."""

import os
import shutil
from collections.abc import Sequence
from typing import Any

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

from trueneg.planning.folder_lock import reason_not_to_unlock


def is_given(option: str, arguments: Sequence[str]) -> bool:
    """Return whether a command line has an option, which may be abbreviated.

    Example:
        >>> is_given("--archive", ["-c1", "--arch=all.tar"]), is_given("--archive", ["-c1", "--"])
        (True, False)
    """
    names = (argument.partition("=")[0] for argument in arguments)
    return any(option.startswith(name) and len(name) > 2 for name in names)


def refuse_unsupported(workflow: Any, image: str, arguments: Sequence[str]) -> None:
    """Stop before the plan if an option cannot work here.

    Args:
        workflow: Snakemake's workflow.
        image: path of the container image.
        arguments: command line of the main process, because Snakemake's settings do not say what
            it does instead of running jobs; empty in the processes of jobs.
    """
    methods = workflow.deployment_settings.deployment_method
    if " " in image and DeploymentMethod.APPTAINER in methods:
        raise WorkflowError(
            f"Snakemake cannot use {image}, whose path has a space. Start it in the folder of the"
            " Snakefile."
        )
    if workflow.storage_settings.default_storage_provider is not None:
        raise WorkflowError(
            "TrueNeg needs a shared file system: remove --default-storage-provider and keep the"
            " checkout and results/ where all nodes see them (docs/cluster.md)."
        )
    needs_conda = any(is_given(option, arguments) for option in ("--archive", "--containerize"))
    if needs_conda and not shutil.which("conda"):
        raise WorkflowError(
            "--archive and --containerize need conda, because they contain the conda environment"
            " of the jobs. Install conda, or, for an image without it, build envs/Containerfile"
            " (docs/cluster.md)."
        )
    if is_given("--unlock", arguments) and (reason := reason_not_to_unlock()):
        raise WorkflowError(reason)


def require_whole_outputs(workflow: Any) -> None:
    """Stop before any job if Snakemake would take missing or incomplete files for results."""
    if workflow.execution_settings.keep_incomplete:
        raise WorkflowError(
            "Leave out --keep-incomplete: Snakemake would take what a failed job has written for"
            " finished results."
        )
    jobs = workflow.dag.needrun_jobs() if workflow.touch else []
    missing = [path for job in jobs for path in job.output if not os.path.exists(path)]
    if missing:
        others = f" and {len(missing) - 1} more" if missing[1:] else ""
        raise WorkflowError(
            f"--touch makes no files, and {missing[0]}{others} do not exist. Run Snakemake without"
            " --touch."
        )
