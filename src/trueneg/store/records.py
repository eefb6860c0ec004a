"""What the pipeline wrote and reads again: tables, records and settings; a damaged one is told in a sentence."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import EllipsisType, NoneType
from typing import Any, TypeVar

import pandas as pd
import yaml

from trueneg.errors import UserError
from trueneg.specs.settings import Study

SomeStudy = TypeVar("SomeStudy", bound=Study)

AGAIN = "Remove it to have it made again."

# What a content must look like: a type (... stands for a key that may be missing); a whole number of a range; text of a pattern;
# a mapping with at least these keys (each key where the only one is ...); a list of one kind of thing; or a tuple of such, of
# which one must fit.
Shape = type | range | re.Pattern[str] | tuple[Any, ...] | Mapping[Any, Any] | list[Any]

COUNT = range(2**63)  # what tables and formats can hold
NUMBER = (COUNT, float)
RUN_ID = re.compile("[0-9A-Za-z-]{1,100}")  # the name of a folder, too
ENVIRONMENT: Shape = {"fingerprint": str, "commit": str, "machine": {"host": str, "system": str}, "versions": {...: str}}
RUN: Shape = {
    **ENVIRONMENT,
    **dict.fromkeys(("study", "dataset", "objective", "device", "finished"), str),
    "id": RUN_ID,
    "seed": COUNT,
    "images": COUNT,
    "seconds": NUMBER,
    "gpu_seconds": (NUMBER, EllipsisType),
    "threads": (COUNT, EllipsisType),
    "devices": (COUNT, EllipsisType),
    "attempts": list,
    "evaluated": (ENVIRONMENT, EllipsisType),
    "source": {"name": str, "checksum": str},
    "settings": {
        "dataset": dict,
        "encoder": {"name": str},
        "objective": {"name": str},
        "training": {"epochs": (COUNT, NoneType), "updates": (COUNT, NoneType)},
    },
}
PROGRESS: Shape = {
    "epoch": COUNT,
    "epochs": COUNT,
    "spent": [{"seconds": NUMBER, "device": str, "devices": COUNT}],
    "dataset": (str, EllipsisType),
    "objective": (str, EllipsisType),
    "seed": (COUNT, EllipsisType),
}
MANIFEST: Shape = {"study": str, "dataset": str, "objective": str, "runs": [{"seed": COUNT, "id": RUN_ID, "checksum": str}]}
LANGUAGE_MODELS: Shape = {"folds": COUNT, "models": [{"fold": COUNT, "folder": str, "checksum": (str, NoneType)}]}
COMPARISON: Shape = {
    "gate": [{"dataset": str, "verdict": str}],
    "selection": [{"dataset": str, "objective": str, "variant": str, "candidates": COUNT}],
    "primary": {"answer": str, "task": str, "metric": str, **dict.fromkeys(("labels", "direction", "group"), (str, NoneType))}
    | dict.fromkeys(("fraction", "k"), (NUMBER, NoneType)),
    "seeds": COUNT,
}
STUDY: Shape = {"title": str}


def read_json(path: str | Path, shape: Shape = object, remedy: str = AGAIN) -> Any:
    """The content of a JSON file.

    Args:
        path: the file.
        shape: what it must look like.
        remedy: what to do if it does not, as a sentence.

    Raises:
        UserError: if it is missing, damaged, or of another shape.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, "is not valid JSON", error, remedy) from error
    _refuse_other(content, shape, path, remedy)
    return content


def read_settings(path: str | Path, shape: Shape = STUDY, remedy: str = AGAIN) -> Any:
    """The content of a YAML file, as :func:`read_json`."""
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except MemoryError:  # says nothing of the file
        raise
    except Exception as error:  # a date that does not exist is a ValueError, too deep a nesting a RecursionError
        raise _damaged(path, "is not valid YAML", error, remedy) from error
    _refuse_other(content, shape, path, remedy)
    return content


def read_study(path: str | Path, model: type[SomeStudy]) -> SomeStudy:
    """The resolved settings of a study that ``study.yaml`` holds.

    Raises:
        UserError: if it is missing, damaged, or not of that model.
    """
    try:
        return model.model_validate(read_settings(path))
    except ValueError as error:
        found = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: is no study of today's form ({found}). Let Snakemake make it again.") from error


def read_rows(path: str | Path, columns: Sequence[str] = (), remedy: str = AGAIN) -> pd.DataFrame:
    """A parquet file.

    Args:
        path: the file.
        columns: that it must have.
        remedy: what to do if it has not, as a sentence.

    Raises:
        UserError: if it is missing, damaged, or lacks a column.
    """
    try:
        table = pd.read_parquet(path)
    except MemoryError:  # says nothing of the file
        raise
    except Exception as error:  # a damaged file can raise nearly anything
        raise _damaged(path, "is not a whole parquet file", error, remedy) from error
    missing = [name for name in columns if name not in table]
    if missing:
        raise UserError(f"{path}: has no column {', '.join(missing)} (found {', '.join(map(str, table.columns))}). {remedy}")
    return table


def _damaged(path: str | Path, found: str, error: Exception, remedy: str) -> UserError:
    if isinstance(error, FileNotFoundError):
        return UserError(f"{path}: is not there; run the step that makes it.")
    reason = " ".join(str(error).split())[:120].rstrip(".")
    return UserError(f"{path}: {found} ({reason}). {remedy}")


def _refuse_other(content: Any, shape: Shape, path: str | Path, remedy: str) -> None:
    place = _other(content, shape)
    if place is not None:
        raise UserError(f"{path}: {place or 'its content'} is missing or of another kind than was written. {remedy}")


def _other(content: Any, shape: Shape, place: str = "") -> str | None:
    """Where a content is not of a shape; None if it is."""
    if isinstance(shape, tuple):
        return place if all(_other(content, kind, place) is not None for kind in shape) else None
    if isinstance(shape, Mapping):
        if not isinstance(content, Mapping):
            return place
        wanted = dict.fromkeys(content, shape[...]) if ... in shape else shape
        parts = ((f"{place}.{key}".lstrip("."), content.get(key, ...), part) for key, part in wanted.items())
    elif isinstance(shape, list):
        if not isinstance(content, list):
            return place
        parts = ((f"{place}.{number}".lstrip("."), part, shape[0]) for number, part in enumerate(content))
    elif isinstance(shape, range):
        return None if isinstance(content, int) and content in shape else place
    elif isinstance(shape, re.Pattern):
        return None if isinstance(content, str) and shape.fullmatch(content) else place
    else:
        return None if isinstance(content, shape) else place
    return next((found for found in (_other(part, kind, inner) for inner, part, kind in parts) if found is not None), None)
