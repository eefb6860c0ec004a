"""The files of a block: the runs of one objective on one data set for one block of seeds."""

from collections.abc import Sequence
from pathlib import Path

from trueneg.config.runs import Job, jobs
from trueneg.config.trained_study import TrainedStudy

BLOCK = (
    "manifests/{}.json",
    "rows/{}.parquet",
    "artefacts/curves/{}.parquet",
    "artefacts/runs/{}.json",
)
SHOWN = 3  # largest number of blocks to name


def block_files(place: str) -> list[str]:
    """Return the paths of a block's files in the folder of its study: manifest, rows, curves and
    records.

    Args:
        place: data set, objective and block, separated by slashes.
    """
    return [pattern.format(place) for pattern in BLOCK]


def planned_blocks(name: str, study: TrainedStudy) -> dict[str, Job]:
    """Return the job of each block that a study plans, by its place."""
    return {f"{job.dataset}/{job.objective}/{job.block}": job for job in jobs(name, study)}


def absent(folder: Path, place: str) -> str:
    """Return why files of a block are missing in the folder of a study; empty if all of them
    exist.
    """
    manifest, *others = (folder / file for file in block_files(place))
    if not manifest.is_file():
        return "not trained"
    return "" if all(path.is_file() for path in others) else "not evaluated"


def without_rows(name: str, study: TrainedStudy, results: Path) -> list[str]:
    """List the blocks that were trained but not evaluated, for example because their last
    evaluation failed.
    """
    return [
        place
        for place in planned_blocks(name, study)
        if absent(results / name, place) == "not evaluated"
    ]


def listed(names: Sequence[str]) -> str:
    """Join names in a sentence; at most three of them.

    Example:
        >>> listed(["a", "b", "c", "d"])
        'a, b, c and 1 more'
    """
    return ", ".join(names[:SHOWN]) + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )
