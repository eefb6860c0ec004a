"""The files of a block: the runs of one objective on one data set for one block of seeds."""

from pathlib import Path
from typing import Any

from trueneg.config.runs import jobs

MANIFEST, ROWS, CURVES, RUNS = "manifests/{}.json", "rows/{}.parquet", "artefacts/curves/{}.parquet", "artefacts/runs/{}.json"
EVALUATED = (ROWS, CURVES, RUNS)  # written by the evaluation


def places(name: str, study: Any) -> list[str]:
    """List a study's blocks as ``dataset/objective/block``, which completes the names of their files."""
    return list(dict.fromkeys(f"{job.dataset}/{job.objective}/{job.block}" for job in jobs(name, study)))


def missing_rows(name: str, study: Any, results: Path) -> list[str]:
    """List the blocks that were trained but have no rows, for example because their last evaluation failed."""
    folder = results / name
    return [
        place
        for place in places(name, study)
        if (folder / MANIFEST.format(place)).is_file()
        and not all((folder / pattern.format(place)).is_file() for pattern in EVALUATED)
    ]


def listed(missing: list[str]) -> str:
    """Name blocks in a sentence; at most three of them."""
    return ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
