"""The folder of a source that reads the user's own images."""

from pathlib import Path

from trueneg.data.images.folder import required_path
from trueneg.errors import UserError


def own_folder(path: str | Path | None, source: str, expected: str, download: bool) -> Path:
    """Return the folder given by `dataset.path`, as :func:`~trueneg.data.images.folder.required_path` does.

    Raises:
        UserError: if no path is given, it is a file, or `dataset.download` is true.
    """
    folder = required_path(path, source, expected)
    if download:
        raise UserError(f"dataset.download is true, but source {source} reads your own files; remove dataset.download.")
    return folder
