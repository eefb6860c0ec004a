"""Seals: the checksum of each file that the pipeline wrote, kept in a folder of its own below the
results.

Snakemake compares modification times, so it does not notice a damaged file whose time is unchanged.
Each job therefore seals its outputs, and the next job compares its inputs with their seals before
it reads them.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from trueneg.errors import UserError
from trueneg.io.files import file_checksum, write_text

FOLDER = ".checksums"  # in the results folder; a seal has the path of its file
IMPORTED = ("protocol.json",)  # files that no job writes, only the import of a study


def seal(results: Path, paths: Iterable[str | Path]) -> None:
    """Record the SHA-256 of files in the results folder; files that do not exist, or are elsewhere,
    lose their seal.
    """
    for path in map(Path, paths):
        if path.is_file() and path.is_relative_to(results):
            write_text(_seal(results, path), f"{file_checksum(path)}\n")
        else:
            remove_seal(results, path)


def remove_seal(results: Path, path: Path) -> None:
    """Forget the checksum of a file that the pipeline no longer vouches for."""
    if path.is_relative_to(results):
        _seal(results, path).unlink(missing_ok=True)


def is_sealed(results: Path, path: Path) -> bool:
    """Return whether the checksum of a file was recorded."""
    return path.is_relative_to(results) and _seal(results, path).is_file()


def damage(results: Path, path: Path) -> str:
    """Describe how a file differs from its seal; empty if it is intact or has no seal."""
    if not is_sealed(results, path):
        return ""
    if not path.is_file():
        return "is missing"
    try:
        recorded = _seal(results, path).read_text(errors="replace").strip()
        actual = file_checksum(path)
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return (
        ""
        if actual == recorded
        else f"was damaged or edited (SHA-256 {actual[:12]}…, expected {recorded[:12]}…)"
    )


def require_intact(results: Path, paths: Iterable[str | Path]) -> None:
    """Compare files with their seals.

    Raises:
        UserError: if a sealed file is missing or differs from its seal.
    """
    for path in map(Path, paths):
        if problem := fault(results, path):
            raise UserError(problem)


def fault(results: Path, path: Path) -> str:
    """Describe how a file differs from its seal, and say how to recreate it; empty if it is intact
    or has no seal.
    """
    if not (problem := damage(results, path)):
        return ""
    start = "Remove it and run" if path.is_file() else "Run"
    remedy = f"{start} `snakemake {path}` with the study's configuration to recreate it."
    if path.name in IMPORTED:
        remedy = "Import the exported study again (`trueneg rows import`)."
    return f"{path} {problem}. {remedy}"


def sealed_files(results: Path, place: str) -> Iterator[Path]:
    """Yield the sealed files whose path in the results folder starts with a place, such as
    ``sources/digits`` or a study.
    """
    for top in sorted((results / FOLDER).glob(f"{place}*")):
        seals = sorted(top.rglob("*")) if top.is_dir() else [top]
        yield from (
            results / path.relative_to(results / FOLDER) for path in seals if path.is_file()
        )


def _seal(results: Path, path: Path) -> Path:
    return results / FOLDER / path.relative_to(results)
