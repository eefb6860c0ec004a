"""Read the files that the pipeline writes (tables, records and settings); a damaged file raises a user error."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import yaml
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from trueneg.errors import UserError
from trueneg.io.reading import RUN_STEP, reading
from trueneg.specs.settings import Study

SomeStudy = TypeVar("SomeStudy", bound=Study)
Schema = Mapping[str, Any]

AGAIN = "Delete it so that Snakemake recreates it."
SCHEMAS: Mapping[str, Schema] = yaml.safe_load(Path(__file__).with_name("schemas.yaml").read_text(encoding="utf-8"))
RUN, MODEL, PROGRESS, MANIFEST = (SCHEMAS[name] for name in ("run", "language_model", "progress", "manifest"))
LANGUAGE_MODELS, COMPARISON, USER_FILES = (SCHEMAS[name] for name in ("language_models", "comparison", "user_files"))
EVALUATED_RUN, EVALUATION = (SCHEMAS[name] for name in ("evaluated_run", "evaluation"))


def read_json(path: str | Path, schema: Schema | list[Schema] | None = None, remedy: str = AGAIN) -> Any:
    """Read the content of a JSON file.

    Args:
        path: the file.
        schema: JSON Schema of the content; a one-element list if the content is a list of such items.
        remedy: a sentence that tells the user how to fix an invalid file.

    Raises:
        UserError: if the file is missing, damaged, or does not match the schema.
    """
    return _read(path, json.loads, {"type": "array", "items": schema[0]} if isinstance(schema, list) else schema, remedy)


def read_settings(path: str | Path) -> Any:
    """Read the settings of a study from a YAML file; raises the same errors as :func:`read_json`."""
    return _read(path, yaml.safe_load, SCHEMAS["study"], AGAIN)


def _read(path: str | Path, parse: Callable[[str], Any], schema: Schema | None, remedy: str) -> Any:
    with reading(path, Path(path).suffix[1:].upper(), remedy, missing=RUN_STEP):
        content = parse(Path(path).read_text(encoding="utf-8"))
        wrong = next(Draft202012Validator(schema or {}).iter_errors(content), None)
    if wrong is not None:
        place = ".".join(map(str, wrong.absolute_path)) or "the content"
        raise UserError(f"{path}: {place} is invalid ({wrong.message[:200]}). {remedy}")
    return content


def read_study(path: str | Path, model: type[SomeStudy]) -> SomeStudy:
    """Read the resolved settings of a study from its ``study.yaml``.

    Raises:
        UserError: if the file is missing, damaged, or does not match the model.
    """
    try:
        return model.model_validate(read_settings(path))
    except ValidationError as error:
        found = " ".join(str(error).split())[:200]
        raise UserError(f"{path}: does not match the current settings of a study ({found}). {AGAIN}") from error


def read_rows(path: str | Path, columns: Sequence[str] = (), remedy: str = AGAIN) -> pd.DataFrame:
    """Read a parquet file and check that it has the given columns.

    Raises:
        UserError: for a missing or damaged file, or a missing column.
    """
    with reading(path, "a parquet file", remedy, missing=RUN_STEP):
        table = pd.read_parquet(path)
    missing = [name for name in columns if name not in table]
    if missing:
        raise UserError(f"{path}: missing columns: {', '.join(missing)} (found {', '.join(map(str, table.columns))}). {remedy}")
    return table
