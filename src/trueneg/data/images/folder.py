"""The folder that a source is read from: there, or a sentence that says what to do."""

from pathlib import Path

from trueneg.errors import UserError


def required_path(path: str | Path | None, source: str, expected: str) -> Path:
    """The folder that `dataset.path` names, which need not exist yet.

    Args:
        path: as it was given.
        source: the source's name, for messages.
        expected: what the folder should hold, in words.

    Raises:
        UserError: if no path is given, or it is a file.
    """
    if path is None:
        raise UserError(f"dataset.path is missing; source {source} expects a folder with {expected}.")
    path = Path(path).expanduser()
    if path.exists() and not path.is_dir():
        raise UserError(f"{path}: is a file, expected a folder with {expected}; point dataset.path at the folder.")
    return path


def contents(folder: Path, shown: int = 5) -> str:
    """What lies in a folder, in words for a message."""
    if not folder.is_dir():
        return "no such folder"
    names = sorted(entry.name for entry in folder.iterdir())
    if not names:
        return "an empty folder"
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
