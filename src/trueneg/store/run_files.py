"""The user's files that a run reads besides its data set: trained weights, towers and their
vectors.
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.config.runs import towers_of
from trueneg.errors import UserError
from trueneg.io.files import file_checksum
from trueneg.io.reading import reading
from trueneg.specs.sections import RunSettings

OF_TOWERS = ("model", "path", "weights")
WEIGHTS = (
    ("encoder", "weights"),
    ("text_encoder", "model"),
    ("text_encoder", "weights"),
    ("text_encoder", "projection"),
)


def named_files(settings: RunSettings) -> dict[str, str]:
    """Return the files and released weights that a run's settings name, by role, such as ``encoder
    weights``.
    """
    weights = {f"{section} {key}": settings.get(section, {}).get(key) for section, key in WEIGHTS}
    towers = {
        f"{section} {key}": tower.get(key)
        for section, tower in towers_of(settings).items()
        for key in OF_TOWERS
    }
    return {role: name for role, name in (weights | towers).items() if isinstance(name, str)}


def run_checksums(settings: RunSettings) -> dict[str, str]:
    """Return the SHA-256 of each file that a run reads, by role; the checksums are part of the
    run's id.
    """
    return {
        role: checksum_of(name)
        for role, name in named_files(settings).items()
        if Path(name).exists()
    }


def stored_files(features: str | Path) -> dict[str, str]:
    """Return the checksums of the local files that a file of stored vectors
    (:mod:`trueneg.data.stored_features`) was computed with, by path; empty if there are none.

    Raises:
        UserError: if it is damaged.
    """
    if not Path(features).is_file():
        return {}
    damaged = reading(features, "vectors of a frozen tower", "Remove it, then run the study again.")
    with damaged, np.load(features, allow_pickle=False) as archive:
        files: dict[str, str] = json.loads(str(archive.get("files", "{}")))
        return files


def require_unchanged(files: Mapping[str, str]) -> None:
    """Compare the local files of a frozen tower with those that its vectors were computed with.

    Args:
        files: of :func:`stored_files`.

    Raises:
        UserError: if one has changed; those that are missing count as unchanged.
    """
    for path, checksum in files.items():
        if Path(path).exists() and checksum_of(path) != checksum:
            raise UserError(
                f"{path} has changed since vectors were computed with it. Restore it, or run the"
                " study again: snakemake with its configuration."
            )


def with_further(checksum: str, *further: Mapping[str, Any]) -> str:
    """Return a checksum of a run's data together with those of its further inputs, by role."""
    parts = [checksum]
    for inputs in further:
        parts += [f"{role} {of_input}" for role, of_input in inputs.items()]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest() if len(parts) > 1 else checksum


def checksum_of(path: str | Path) -> str:
    """Return the SHA-256 of a file, or of a folder's files; cached while their sizes and
    modification times stay the same.
    """
    if Path(path).is_dir():
        files = sorted(
            file
            for file in Path(path).rglob("*")
            if file.is_file() and file.suffix != ".md" and not file.name.startswith(".")
        )
        listed = "\n".join(f"{file.relative_to(path)} {checksum_of(file)}" for file in files)
        return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()
    status = Path(path).stat()
    return _checksum(str(path), status.st_size, status.st_mtime_ns)


@functools.cache
def _checksum(path: str, size: int, modified: int) -> str:
    return file_checksum(path)
