"""Locate the folder of a source and the files and folders it should contain."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from trueneg.errors import UserError

SHOWN = 5  # names of files in a message


def required_path(path: str | Path | None, source: str, expected: str) -> Path:
    """Return the folder given by `dataset.path`; it need not exist yet.

    Args:
        path: the value of `dataset.path`.
        source: the source's name, for messages.
        expected: description of the folder's expected contents, for messages.

    Raises:
        UserError: if no path is given, or it is a file.
    """
    if path is None:
        raise UserError(
            f"dataset.path is missing; source {source} expects a folder with {expected}."
        )
    path = Path(path).expanduser()
    if path.exists() and not path.is_dir():
        raise UserError(
            f"{path} is a file; expected a folder with {expected}. Name the folder"
            " (dataset.path of a study)."
        )
    return path


def contents(folder: Path) -> str:
    """Describe the contents of a folder for a message."""
    if not folder.is_dir():
        return "no such folder"
    names = sorted(entry.name for entry in folder.iterdir())
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more or "an empty folder"


class Part(NamedTuple):
    """A file or folder of a known dataset.

    Attributes:
        names: glob patterns of its possible paths within the dataset's folder, the usual one first.
        what: description of its contents.
        origin: a sentence on where to get it.
    """

    names: tuple[str, ...]
    what: str
    origin: str

    def find(self, folder: Path) -> Path | None:
        """Return its path, or None if it is missing."""
        return next((path for name in self.names for path in folder.glob(name)), None)

    def required(self, folder: Path) -> Path:
        """Return its path.

        Raises:
            UserError: if the file or folder is missing.
        """
        path = self.find(folder)
        if path is None:
            raise UserError(
                f"{folder / self.names[0]} is missing; expected {self.what} (found"
                f" {contents(folder)}). {self.origin}"
            )
        return path


def found_parts(folder: Path, parts: Iterable[Part]) -> list[Path]:
    """Return the paths of the parts that exist."""
    return list(filter(None, (part.find(folder) for part in parts)))


def missing_parts(folder: Path, parts: Iterable[Part]) -> list[str]:
    """Return the lines that ``trueneg check`` reports for missing parts, one per origin."""
    missing: dict[str, list[str]] = {}
    for part in parts:
        if part.find(folder) is None:
            missing.setdefault(part.origin, []).append(f"{part.names[0]} ({part.what})")
    return [f"{', '.join(named)} in {folder}. {origin}" for origin, named in missing.items()]
