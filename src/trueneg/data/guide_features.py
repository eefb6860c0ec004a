"""Files of frozen features that guide a loss; torch is not needed to identify them."""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueneg.errors import UserError
from trueneg.io.files import file_checksum


def features_checksum(objective: Mapping[str, Any]) -> list[str]:
    """Return the checksum of the file of features of an objective's guide, as a list; empty if it has none.

    Raises:
        UserError: if the file is missing.
    """
    guide = objective.get("guide") or {}
    if guide.get("name") != "features":
        return []
    path = Path(guide["path"])
    if not path.is_file():
        raise UserError(f"guide.path is {path}; expected a .safetensors file. Correct the path, or write the features there.")
    found = path.stat()
    return [f"features {_checksum(path, found.st_size, found.st_mtime_ns)}"]


@functools.lru_cache(maxsize=8)  # the runs of a job share a file
def _checksum(path: Path, size: int, changed: int) -> str:
    return file_checksum(path)
