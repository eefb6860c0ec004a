"""Arrays that jobs hand on in .npz files."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.errors import UserError


def read_arrays(path: str | Path, expected: str, *, without: str | None = None) -> dict[str, Any]:
    """The arrays of an .npz file by name, scalars as str; checksums of the archive are compared.

    Args:
        path: of the file.
        expected: what it holds, in words.
        without: an array that is not read.

    Raises:
        UserError: if the file is missing or damaged.
    """
    if not Path(path).is_file():
        raise UserError(f"{path}: does not exist, expected {expected}; run the step that makes it.")
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no .npz archive, or its end is missing")
        with np.load(path, allow_pickle=False) as archive:
            content = {name: archive[name] for name in archive.files if name != without}
    except MemoryError:  # says nothing about the file
        raise
    except Exception as error:  # a damaged archive can raise nearly anything
        raise UserError(f"{path}: cannot be read as {expected} ({error}). Remove it to have it made again.") from error
    return {name: str(array) if array.shape == () else array for name, array in content.items()}
