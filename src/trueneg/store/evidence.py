"""Evidence of a study: everything that cannot be remade without its data or weights, in few
compressed files.

The folder ``evidence/<study>`` contains

- ``study.json``: ``format`` (2), ``study``, ``protocol`` (file, checksum, commit and date; or
  null), ``missing`` (blocks of seeds that are not in the evidence, with the reason), ``epochs``
  (the largest number of epochs in a training curve), ``tuning`` (rule, measurement, candidates,
  pilot seeds and winners; or null), ``user_files`` (records of the data that were read) and
  ``files`` (SHA-256 of each other file).
- ``runs.parquet``: one row per run of each block, with the model's checksum, the variant if a
  winner decided it, and the record of the run (compact JSON).
- ``rows.parquet``, ``curves.parquet`` and ``subsets.parquet``. The column ``file`` is the path
  below ``results/<study>`` of the file that a row belongs to; the key ``schemas`` of the parquet
  metadata lists the Arrow schemas of these files. A training curve with more than :data:`EPOCHS`
  epochs is thinned: its first and last epoch and evenly spaced ones between them are kept.
- ``artefacts.parquet``: the other files that cannot be remade without data or weights, one per row,
  as they are.
"""

import base64
import dataclasses
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pandas import DataFrame, Series
from pydantic import BaseModel, ConfigDict

from trueneg.errors import UserError
from trueneg.io.files import file_checksum, writable, write_text
from trueneg.io.reading import reading
from trueneg.stats.measurement import KEYS
from trueneg.store.blocks import block_files
from trueneg.store.protocol import Protocol
from trueneg.store.records import AGAIN as RECREATE
from trueneg.store.records import EvaluatedRun, Manifest, UserFilesRecord, read_json, require_valid
from trueneg.store.rows import COLUMNS, typed
from trueneg.store.winners import Decision

EPOCHS = 30  # largest number of epochs in a training curve
STUDY = "study.json"
AGAIN = "Copy the exported folder again."
EXPORT = "part of an exported study"

NAME, SEEDS = r"(?!\.\.?/)[^/\0]+", r"seed[0-9+-]*[0-9]"
PLACE = f"{NAME}/{NAME}/{SEEDS}"
# Files below results/<study> that each table gathers. Snakemake makes all other artefacts from
# them.
ARTEFACTS = (
    rf"artefacts/(embedding|retrieval|similarities|overlays)/{NAME}/{NAME}\.parquet",
    rf"artefacts/human_ratings/{PLACE}(-bins)?\.parquet",
    rf"artefacts/rating_references/{NAME}/{SEEDS}(-eta|-correlations)?\.parquet",
    rf"artefacts/assumption/{NAME}/(points|summary|calibration)\.parquet",
    # class_probabilities: in the evidence of phantom_replication and eta_quality only
    r"artefacts/(class_probabilities|eta_errors)\.parquet",
    rf"text/{NAME}/eta\.parquet",
)
TABLES = {
    "rows": rf"rows/{PLACE}\.parquet",
    "curves": rf"artefacts/curves/{PLACE}\.parquet",
    "subsets": rf"subsets/{NAME}/{SEEDS}\.parquet",
    "artefacts": "|".join(ARTEFACTS),
}
EXPORTED = ("runs.parquet", *(f"{name}.parquet" for name in TABLES))
# as trueneg.data.samples writes them
OPTIONS: dict[str, Any] = {"subsets": {"compression": "zstd", "write_page_checksum": True}}
GATHERED = ("rows", "curves", "subsets")  # tables whose files are tables themselves
# places of the records of the data
INPUTS = rf"(?:(?:sources|pairs|texts)/{NAME}|{NAME}/text/{NAME}/reports)"
KEY = ["dataset", "objective", "block"]


class EvidenceBlock(NamedTuple):
    """The runs of one objective on one data set for one block of seeds.

    Attributes:
        place: data set, objective and block, separated by slashes.
        checksums: checksum of each run's model, by the run's id.
        records: provenance of each run's training and evaluation.
        rows: the rows of the runs.
        curves: their training curves.
    """

    place: str
    checksums: dict[str, str]
    records: list[dict[str, Any]]
    rows: DataFrame
    curves: DataFrame

    @property
    def files(self) -> list[str]:
        """The paths of the block's files in the folder of the study."""
        return block_files(self.place)


class Description(BaseModel):
    """The content of ``study.json``.

    Attributes:
        study: name of the study.
        protocol: the study's protocol.
        missing: why a block is not part of the evidence, by its place.
        epochs: largest number of epochs in a training curve.
        tuning: the decision of a tuned study.
        user_files: records of the data that were read, by place in the results folder.
        files: SHA-256 of each other file of the evidence, by its name.
    """

    model_config = ConfigDict(extra="forbid")

    format: Literal[2] = 2
    study: str
    protocol: Protocol | None
    missing: dict[str, str]
    epochs: int = EPOCHS
    tuning: Decision | None
    user_files: dict[str, dict[str, Any]]
    files: dict[str, str]


@dataclasses.dataclass
class Evidence:
    """The evidence of a study in memory.

    Attributes:
        description: the content of ``study.json``, without checksums of files that are not written
            yet.
        manifests: manifests, by the block's place.
        records: records of the runs, by the block's place.
        tables: rows, curves and subsets, by path below ``results/<study>``.
        artefacts: content of the other files, by path below ``results/<study>``.
    """

    description: Description
    manifests: dict[str, dict[str, Any]]
    records: dict[str, list[dict[str, Any]]]
    tables: dict[str, pa.Table]
    artefacts: dict[str, bytes]

    def blocks(self, folder: Path, remedy: str = AGAIN) -> list[EvidenceBlock]:
        """Return the blocks after checking that their files agree with each other; `folder` is
        named in messages.
        """
        listed = {file for place in self.manifests for file in block_files(place)}
        of_runs = {file for file in self.tables if table_of(file) in ("rows", "curves")}
        if unlisted := sorted(of_runs - listed):
            raise UserError(f"{folder}: {unlisted[0]} has no manifest and record. {remedy}")
        return [self._block(place, folder, remedy) for place in self.manifests]

    def _block(self, place: str, folder: Path, remedy: str) -> EvidenceBlock:
        manifest, rows, curves, runs = block_files(place)
        frames = []
        for file, columns in ((rows, COLUMNS), (curves, ["run"])):
            if file not in self.tables:
                raise UserError(f"{folder}: {file} is missing. {remedy}")
            if absent := set(columns).difference(self.tables[file].column_names):
                raise UserError(
                    f"{folder}: {file} has no columns {', '.join(sorted(absent))}. {remedy}"
                )
            frames.append(self.tables[file].to_pandas())
        checksums = {run["id"]: run["checksum"] for run in self.manifests[place]["runs"]}
        block = EvidenceBlock(place, checksums, self.records[place], typed(frames[0]), frames[1])
        for file, identifiers in (
            (runs, [record["id"] for record in block.records]),
            (rows, block.rows["run"]),
            (curves, block.curves["run"]),
        ):
            if {*identifiers} != checksums.keys():
                raise UserError(f"{folder}: {file} and {manifest} name different runs. {remedy}")
        if (
            not np.isfinite(block.rows["value"]).all()
            or block.rows.duplicated(["run", "split", *KEYS]).any()
        ):
            raise UserError(
                f"{folder}: {rows}: expected finite values, and each measurement once per run and"
                f" split. {remedy}"
            )
        return block

    def files(self) -> dict[str, bytes]:
        """Return the content of the files below ``results/<study>``, except what is computed from
        them.
        """
        files = {
            file: parquet(table, **OPTIONS.get(str(table_of(file)), {}))
            for file, table in self.tables.items()
        }
        files |= self.artefacts
        for place, manifest in self.manifests.items():
            of_manifest, _, _, of_records = block_files(place)
            files[of_manifest] = (json.dumps(manifest, indent=2) + "\n").encode()
            files[of_records] = (json.dumps(self.records[place], indent=2) + "\n").encode()
        return files


def table_of(file: str) -> str | None:
    """Return the table that gathers a file below ``results/<study>``; None if Snakemake makes the
    file from others.
    """
    return next((name for name, pattern in TABLES.items() if re.fullmatch(pattern, file)), None)


def exported_studies(folder: Path) -> list[Path]:
    """Return the subfolders that contain an exported study."""
    return sorted(path.parent for path in folder.glob(f"[!.]*/{STUDY}"))


def read_results(study: str, folder: Path, places: Iterable[str], files: Iterable[str]) -> Evidence:
    """Read blocks and other files from a folder with the layout of ``results/<study>``.

    Raises:
        UserError: if a file is missing or damaged.
    """
    manifests = {}
    records = {}
    tables = {}
    artefacts = {}
    for place in places:
        manifest, rows, curves, runs = block_files(place)
        manifests[place] = read_json(folder / manifest, Manifest)
        records[place] = read_json(folder / runs, list[EvaluatedRun])
        for file in (rows, curves):
            tables[file] = _read_table(folder / file, RECREATE)
    for file in files:
        table = _read_table(folder / file, RECREATE)
        if table_of(file) == "artefacts":
            artefacts[file] = (folder / file).read_bytes()
        else:
            tables[file] = table
    description = Description(
        study=study, protocol=None, missing={}, tuning=None, user_files={}, files={}
    )
    return Evidence(description, manifests, records, tables, artefacts)


def write_evidence(evidence: Evidence, target: Path) -> None:
    """Write evidence to a new folder, then replace `target` with it; the same evidence gives the
    same bytes.
    """
    target = target.resolve()
    made = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with writable(target):
            made.mkdir(parents=True)
            for name, table in _exported_tables(evidence):
                (made / f"{name}.parquet").write_bytes(_compressed(table))
            described = evidence.description.model_dump(mode="json") | {
                "files": {path.name: file_checksum(path) for path in sorted(made.iterdir())}
            }
            write_text(made / STUDY, json.dumps(described, indent=1) + "\n")
            earlier = target.with_name(f".{target.name}.{os.getpid()}.earlier")
            if target.exists():
                target.rename(earlier)
            made.rename(target)
            shutil.rmtree(earlier, ignore_errors=True)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _exported_tables(evidence: Evidence) -> Iterator[tuple[str, pa.Table]]:
    """Yield the name and content of each exported table that is not empty."""
    for name in GATHERED:
        of_name = {file: table for file, table in evidence.tables.items() if table_of(file) == name}
        if name == "curves":
            of_name = {file: _thinned(table) for file, table in of_name.items()}
        if of_name:
            yield name, _gathered(of_name)
    if evidence.manifests:
        yield "runs", _runs(evidence)
    if artefacts := evidence.artefacts:
        yield "artefacts", pa.table({"file": [*artefacts], "content": [*artefacts.values()]})


def read_evidence(folder: Path) -> Evidence:
    """Read an exported study.

    Raises:
        UserError: if a file is missing, damaged or unknown.
    """
    path = folder / STUDY
    with reading(path, "the description of an export in format 2", AGAIN):
        described = Description.model_validate_json(path.read_bytes())
    _refuse_changes(folder, described.files)
    for place, record in described.user_files.items():
        if not re.fullmatch(INPUTS, place):
            raise UserError(f"{path}: user_files.{place!r} is not the place of a record. {AGAIN}")
        require_valid(record, UserFilesRecord, path, AGAIN)
    paths = {path.stem: path for path in folder.glob("*.parquet")}
    manifests, records = _blocks_of(described.study, paths["runs"]) if "runs" in paths else ({}, {})
    tables = {
        file: table
        for name in GATHERED
        if name in paths
        for file, table in _separated(paths[name]).items()
    }
    artefacts = _artefacts_of(paths["artefacts"]) if "artefacts" in paths else {}
    return Evidence(described, manifests, records, tables, artefacts)


def _refuse_changes(folder: Path, sums: Mapping[str, str]) -> None:
    """Compare the files of an exported study with their checksums; refuse files that are not part
    of an export.
    """
    for file, checksum in sums.items():
        path = folder / file
        if file not in EXPORTED or path.is_symlink():
            raise UserError(
                f"{folder / STUDY} lists {file!r}, which is not part of an exported study. {AGAIN}"
            )
        if not path.is_file() or file_checksum(path) != checksum:
            raise UserError(f"{path} is missing or does not match its checksum in {STUDY}. {AGAIN}")
    present = {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()
    }
    if unlisted := sorted(present.difference(sums, [STUDY])):
        raise UserError(
            f"{folder / unlisted[0]} is not listed in {STUDY}. Remove it, or copy the exported"
            " folder again."
        )


def _runs(evidence: Evidence) -> pa.Table:
    rows = []
    for place, manifest in evidence.manifests.items():
        records = {record["id"]: record for record in evidence.records[place]}
        for run in manifest["runs"]:
            of_run = (
                run["seed"],
                run["id"],
                run["checksum"],
                manifest.get("variant"),
                json.dumps(records[run["id"]], separators=(",", ":")),
            )
            rows.append((*place.split("/"), *of_run))
    columns = [*KEY, "seed", "run", "checksum", "variant", "record"]
    types = dict.fromkeys(columns, pa.string()) | {"seed": pa.int64()}
    return pa.table([*map(list, zip(*rows, strict=True))], schema=pa.schema(types))


def _blocks_of(
    study: str, path: Path
) -> tuple[dict[str, dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Return the manifests and records in ``runs.parquet``, by the block's place."""
    manifests: dict[str, dict[str, Any]] = {}
    records: dict[str, list[dict[str, Any]]] = {}
    with reading(path, EXPORT, AGAIN):
        for row in _read_table(path, AGAIN).to_pylist():
            place = "/".join(row[key] for key in KEY)
            if not re.fullmatch(PLACE, place):
                raise ValueError(f"{place!r} is not a block of seeds")
            decided = {} if row["variant"] is None else {"variant": row["variant"]}
            manifest = manifests.setdefault(
                place,
                {
                    "study": study,
                    "dataset": row["dataset"],
                    "objective": row["objective"],
                    **decided,
                    "runs": [],
                },
            )
            manifest["runs"].append(
                {"seed": row["seed"], "id": row["run"], "checksum": row["checksum"]}
            )
            records.setdefault(place, []).append(json.loads(row["record"]))
    for place, manifest in manifests.items():
        require_valid(manifest, Manifest, path, AGAIN)
        require_valid(records[place], list[EvaluatedRun], path, AGAIN)
    return manifests, records


def _thinned(curves: pa.Table) -> pa.Table:
    """Return training curves with at most :data:`EPOCHS` epochs per run."""
    runs = Series(curves["run"].to_pylist())
    lines = [
        of_run[np.linspace(0, len(of_run) - 1, min(len(of_run), EPOCHS)).round().astype(int)]
        for of_run in runs.groupby(runs).indices.values()
    ]
    return curves.take(np.sort(np.concatenate(lines))) if lines else curves


def _gathered(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return tables below each other, with the column ``file`` and their schemas as metadata."""
    schemas: dict[str, list[str]] = {}
    for file, table in tables.items():
        schemas.setdefault(base64.b64encode(table.schema.serialize()).decode(), []).append(file)
    parts = [
        table.replace_schema_metadata().add_column(0, "file", pa.repeat(file, len(table)))
        for file, table in tables.items()
    ]
    gathered = pa.concat_tables(parts, promote_options="permissive")
    return gathered.replace_schema_metadata({"schemas": json.dumps(list(schemas.items()))})


def _separated(path: Path) -> dict[str, pa.Table]:
    """Return the tables that :func:`_gathered` put below each other, by file."""
    gathered = _read_table(path, AGAIN)
    tables = dict[str, pa.Table]()
    with reading(path, EXPORT, AGAIN):
        for schema, files in json.loads(gathered.schema.metadata[b"schemas"]):
            wanted = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema)))
            for file in files:
                tables[file] = (
                    gathered.filter(pc.equal(gathered["file"], file))
                    .select(wanted.names)
                    .cast(wanted)
                )
        if unlisted := {*gathered["file"].to_pylist()}.difference(tables):
            raise ValueError(f"{min(unlisted)!r} has rows, but no schema")
    _refuse_foreign_files(path, tables)
    return tables


def _artefacts_of(path: Path) -> dict[str, bytes]:
    with reading(path, EXPORT, AGAIN):
        rows = _read_table(path, AGAIN).to_pylist()
        artefacts = {row["file"]: bytes(row["content"]) for row in rows}
    _refuse_foreign_files(path, artefacts)
    return artefacts


def _refuse_foreign_files(path: Path, files: Iterable[str]) -> None:
    """Refuse a table with rows of files that it does not gather."""
    if foreign := [file for file in files if table_of(file) != path.stem]:
        raise UserError(
            f"{path} contains {foreign[0]!r}, which is not a file of an exported study. {AGAIN}"
        )


def _read_table(path: Path, remedy: str) -> pa.Table:
    with reading(path, EXPORT, remedy):
        return pq.ParquetFile(path).read()


def parquet(table: pa.Table, **options: Any) -> bytes:
    """Return the content of a parquet file with this table."""
    buffer = io.BytesIO()
    pq.write_table(table.combine_chunks(), buffer, **options)
    return buffer.getvalue()


def _compressed(table: pa.Table) -> bytes:
    integers = {
        field.name: "DELTA_BINARY_PACKED"
        for field in table.schema
        if pa.types.is_integer(field.type)
    }
    others = [name for name in table.column_names if name not in integers]
    return parquet(table, compression="zstd", use_dictionary=others, column_encoding=integers)
