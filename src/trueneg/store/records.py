"""Read the files that the pipeline writes (tables, records and settings); a damaged file raises a
user error.
"""

import functools
import json
import reprlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import yaml
from pandas import DataFrame
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from trueneg.errors import UserError
from trueneg.io.reading import RUN_STEP, reading

AGAIN = "Delete it so that Snakemake recreates it."
Record = Mapping[str, Any]  # of a run or of data, as parsed
ABSENT: Any = None  # default of an optional key; null is not allowed as its value

Count = Annotated[int, Field(ge=0, le=2**63 - 1)]  # at most what an int64 column can hold
RunId = Annotated[str, Field(pattern="^[0-9A-Za-z-]{1,100}$")]  # also a folder name


class Content(BaseModel):
    """Content of a file that the pipeline writes and reads back; values are not converted, and
    unknown keys are not checked.
    """

    model_config = ConfigDict(strict=True)


class Machine(Content):
    """The computer that made a result."""

    host: str
    system: str
    cpu: str = ABSENT


class Code(Content):
    """Version of everything that made a result."""

    versions: dict[str, int]


class Environment(Content):
    """The code and the machine that computed a result."""

    code: Code
    commit: str
    machine: Machine
    versions: dict[str, str]


class NamedSection(Content):
    """A setting that is selected by its name."""

    name: str


class SourceRecord(NamedSection):
    """The training data: name, checksum, and sentences about what was left out of them, what their
    splits share, and near duplicates in two splits.
    """

    checksum: str
    skipped: str = ABSENT
    leakage: str = ABSENT
    near: str = ABSENT


class Length(Content):
    """The length of a training: epochs or updates."""

    epochs: Count | None
    updates: Count | None


class RecordedSettings(Content):
    """The sections of a run's settings that readers use."""

    dataset: dict[str, Any]
    encoder: NamedSection = ABSENT
    text_encoder: NamedSection = ABSENT  # alone if there are no images
    objective: NamedSection
    training: Length


class EvaluationEnvironment(Environment):
    """The code and the machine that measured rows, and the evaluation settings."""

    settings: dict[str, Any]


class Attempt(Content):
    """One attempt to train a model."""

    seconds: float
    cpu_seconds: float = ABSENT
    device: str
    devices: Count


class TrainingRecord(Environment):
    """Provenance of a trained model."""

    id: RunId
    device: str
    seconds: float
    attempts: list[Attempt]
    checksum: str = ABSENT


class RunRecord(TrainingRecord):
    """Provenance of a run."""

    study: str
    dataset: str
    objective: str
    finished: str
    seed: Count
    images: Count
    cpu_seconds: float = ABSENT
    gpu_seconds: float = ABSENT
    threads: Count = ABSENT
    devices: Count = ABSENT
    evaluated: EvaluationEnvironment = ABSENT
    files: dict[str, str] = ABSENT
    false_negatives: dict[str, Any] = ABSENT
    source: SourceRecord
    data: str
    settings: RecordedSettings


class EvaluatedRun(RunRecord):
    """A block's record of a run: its provenance and that of its rows."""

    evaluated: EvaluationEnvironment


class MeasuredRow(Content):
    """A measured number: the split, the fields of a measurement, and the value."""

    split: str
    task: str
    metric: str
    labels: str | None
    fraction: float | None
    direction: str | None
    k: Count | None
    group: str | None
    value: float


class Evaluation(Content):
    """The rows of a run, and how they were measured."""

    evaluated: EvaluationEnvironment
    rows: list[MeasuredRow]


class Protocol(BaseModel):
    """A protocol: ``file``, ``checksum`` (SHA-256), and the last ``commit`` that changed the file
    with its ``date``, if known.
    """

    model_config = ConfigDict(extra="forbid")

    file: str
    checksum: str
    commit: str | None
    date: str | None


class TrainedModel(Content):
    """The keys that the records of all runs and language models have."""

    code: Code
    checksum: str


class Progress(Content):
    """Progress of an unfinished run."""

    epoch: Count
    epochs: Count
    spent: list[Attempt]
    dataset: str = ABSENT
    objective: str = ABSENT
    seed: Count = ABSENT


class ListedRun(Content):
    """A run in a manifest."""

    seed: Count
    id: RunId
    checksum: str


class Manifest(Content):
    """The runs of one objective on one data set for one block of seeds."""

    study: str
    dataset: str
    objective: str
    variant: str = ABSENT
    runs: list[ListedRun]


class ComparisonRecord(Content):
    """Results of a study's comparison, whose file is compared with its seal wherever it is read."""

    seeds: Count
    headroom: list[dict[str, Any]]
    selected_by: dict[str, Any] = Field(alias="selected by")
    selection: list[dict[str, Any]]
    primary: dict[str, Any]


class TitledStudy(Content):
    """The part of a study's settings that all of their readers need."""

    title: str


class SourceSettings(Content):
    """The settings of a source."""

    source: str


class FileStatus(Content):
    """Size, modification time (ns) and SHA-256 of a file."""

    size: Count
    modified: int
    checksum: str


class ImageFilesStatus(Content):
    """Digests of the image files of a source, and their number."""

    stamp: str
    count: int = ABSENT
    checksum: str


class UserFilesRecord(Content):
    """Record of the user's files that the first job of a chain writes."""

    kind: str
    settings: SourceSettings
    stamp: str
    data: str
    files: dict[str, FileStatus]
    images: ImageFilesStatus


def read_json(path: str | Path, model: Any = None, remedy: str = AGAIN) -> Any:
    """Read a JSON file and return its content as parsed, including keys that the model does not
    have.

    Args:
        path: the file.
        model: the type that the content must have: a :class:`Content` or a list of them; None: any.
        remedy: a sentence that tells the user how to fix an invalid file.

    Raises:
        UserError: if the file is missing, damaged, or does not match the model.
    """
    return _read(path, json.loads, model, remedy)


def read_settings(path: str | Path) -> Any:
    """Read the settings of a study from a YAML file; raises the same errors as
    :func:`read_json`.
    """
    return _read(path, yaml.safe_load, TitledStudy, AGAIN)


def _read(path: str | Path, parse: Callable[[str], Any], model: Any, remedy: str) -> Any:
    with reading(path, Path(path).suffix[1:].upper(), remedy, missing=RUN_STEP):
        content = parse(Path(path).read_text(encoding="utf-8"))
    if model is not None:
        require_valid(content, model, path, remedy)
    return content


def require_valid(content: Any, model: Any, path: str | Path, remedy: str = AGAIN) -> Any:
    """Return content of a file as an instance of a model; the arguments are those of
    :func:`read_json`.

    Raises:
        UserError: if the content does not match the model.
    """
    try:
        return _adapter(model).validate_python(content)
    except ValidationError as error:
        mistake = error.errors(include_url=False)[0]
        place = ".".join(map(str, mistake["loc"])) or "the content"
        message = mistake["msg"].partition(" or instance of")[0].removeprefix("Value error, ")
        problem = (
            "missing"
            if mistake["type"] == "missing"
            else f"invalid ({message}; found {reprlib.repr(mistake['input'])})"
        )
        raise UserError(f"{path}: {place} is {problem}. {remedy}") from error


_adapter = functools.cache(TypeAdapter)


def read_rows(path: str | Path, columns: Sequence[str] = (), remedy: str = AGAIN) -> DataFrame:
    """Read a parquet file and check that it has the given columns.

    Raises:
        UserError: for a missing or damaged file, or a missing column.
    """
    with reading(path, "a parquet file", remedy, missing=RUN_STEP):
        table = pd.read_parquet(path)
    missing = [name for name in columns if name not in table]
    if missing:
        raise UserError(
            f"{path}: missing columns: {', '.join(missing)} (found"
            f" {', '.join(map(str, table.columns))}). {remedy}"
        )
    return table
