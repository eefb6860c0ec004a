"""The archive of a study: everything that cannot be remade without its data or weights.

``evidence/<study>.tar.xz`` contains

- ``study.json``: see :class:`Description`.
- ``runs/<id>/``: the folders of the runs in the store, without weights: the record, the rows of the
  study's evaluation and, unless the run is a pilot, its training curve, in single precision. Of a
  curve with more than :data:`POINTS` epochs, the first, the last and evenly spaced ones between
  them are kept.
- ``files/``: other files below ``results/<study>`` that Snakemake cannot make from these.
"""

import dataclasses
import functools
import io
import json
import lzma
import math
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pandas import DataFrame
from pydantic import BaseModel, ConfigDict

from trueneg.config.runs import Run
from trueneg.errors import UserError
from trueneg.io.files import atomic_write
from trueneg.io.reading import reading
from trueneg.specs.kinds import kind_of
from trueneg.stats.measurement import KEYS
from trueneg.store.identity import evaluation_digest, run_id
from trueneg.store.records import (
    Evaluation,
    Manifest,
    Protocol,
    RunRecord,
    UserFilesRecord,
    require_valid,
)
from trueneg.store.rows import NAMES, to_table
from trueneg.store.run_store import RunStore
from trueneg.store.winners import Decision

SUFFIX = ".tar.xz"
STUDY = "study.json"
POINTS = 50  # largest number of epochs in a training curve
LARGEST = 2 * 2**30  # bytes of all files in an archive
CHUNK = 2**20  # bytes read at once
AGAIN = "Copy the archive again."
CONTENT = "an archive that `trueneg rows export` wrote"

NAME, SEEDS = r"(?!\.\.?/)[^/\0]{1,100}", r"seed[0-9+-]*[0-9]"
PLACE = f"{NAME}/{NAME}/{SEEDS}"
OF_RUN = (
    r"runs/(?P<run>[0-9A-Za-z-]{1,100})/(run\.json|training\.parquet|evaluated-[0-9a-f]+\.json)"
)
# Files below results/<study>; Snakemake makes all others from these and the runs.
OTHERS = (
    rf"subsets/{NAME}/{SEEDS}\.parquet",
    rf"artefacts/(embedding|retrieval|similarities|overlays)/{NAME}/{NAME}\.parquet",
    rf"artefacts/mined/{NAME}\.parquet",
    rf"artefacts/human_ratings/{PLACE}(-bins)?\.parquet",
    rf"artefacts/samples/{PLACE}\.parquet",
    rf"artefacts/rating_references/{NAME}/{SEEDS}(-eta|-correlations)?\.parquet",
    rf"artefacts/assumption/{NAME}/(points|summary|calibration)\.parquet",
    # class_probabilities: in the evidence of phantom_replication and eta_quality only
    r"artefacts/(class_probabilities|eta_errors)\.parquet",
    rf"text/{NAME}/eta\.parquet",
)
FILES = "files/"
# places of the records of the data
INPUTS = rf"(?:(?:sources|pairs|texts)/{NAME}|{NAME}/text/{NAME}/reports)"


class Block(BaseModel):
    """The runs of one objective on one data set for one block of seeds.

    Attributes:
        names: columns that identify the rows.
        manifest: the runs, with the checksums of their models.
    """

    model_config = ConfigDict(extra="forbid")

    names: dict[str, str]
    manifest: dict[str, Any]


class Description(BaseModel):
    """The content of ``study.json``.

    Attributes:
        format: number of this layout.
        study: name of the study.
        protocol: the study's protocol.
        missing: why a block is not in the archive, by its place (data set, objective and seeds).
        points: largest number of epochs in a training curve.
        tuning: the decision of a tuned study.
        user_files: records of the data that were read, by place in the results folder.
        evaluation: the evaluation settings of the study.
        blocks: the blocks, by place.
        files: paths of the files below ``results/<study>``.
    """

    model_config = ConfigDict(extra="forbid")

    format: Literal[3]
    study: str
    protocol: Protocol | None = None
    missing: dict[str, str] = {}
    points: int = POINTS
    tuning: Decision | None = None
    user_files: dict[str, dict[str, Any]] = {}
    evaluation: dict[str, Any] = {}
    blocks: dict[str, Block] = {}
    files: list[str] = []


@dataclasses.dataclass
class Archive:
    """An archive in memory.

    Attributes:
        description: the content of ``study.json``.
        content: the content of the other files, by name.
        place: name for messages.
        remedy: a sentence that tells the user what to do about a fault.
    """

    description: Description
    content: dict[str, bytes]
    place: Path
    remedy: str = AGAIN

    def files_of(self, run: str) -> dict[str, bytes]:
        """Return the content of a run's files, by name in its folder."""
        folder = f"runs/{run}/"
        return {
            name.removeprefix(folder): content
            for name, content in self._by_run.get(run, {}).items()
        }

    @functools.cached_property
    def _by_run(self) -> dict[str, dict[str, bytes]]:
        of_runs: dict[str, dict[str, bytes]] = {}
        for name, content in self.content.items():
            if found := re.fullmatch(OF_RUN, name):
                of_runs.setdefault(found["run"], {})[name] = content
        return of_runs

    @functools.cached_property
    def listed(self) -> dict[str, str]:
        """The checksum of each run's model, by the run's id."""
        return {
            run["id"]: run["checksum"]
            for block in self.description.blocks.values()
            for run in block.manifest["runs"]
        }

    def others(self) -> dict[str, bytes]:
        """Return the content of the files below ``results/<study>``, by path."""
        return {file: self.content[FILES + file] for file in self.description.files}

    @functools.cached_property
    def records(self) -> dict[str, dict[str, Any]]:
        """The records of the runs, by id."""
        return {run: self._parsed(run, RunStore.RECORD, RunRecord) for run in self.listed}

    def evaluation(self, run: str) -> dict[str, Any]:
        """Return the rows of a run, and how they were measured."""
        (name,) = (name for name in self.files_of(run) if name.startswith("evaluated-"))
        return self._parsed(run, name, Evaluation)

    def rows(self, *places: str) -> DataFrame:
        """Return the rows of blocks; of all if no place is given."""
        rows = []
        for place in places or self.description.blocks:
            block = self.description.blocks[place]
            for run in block.manifest["runs"]:
                identity = {**block.names, "seed": run["seed"], "run": run["id"]}
                rows += [row | identity for row in self.evaluation(run["id"])["rows"]]
        return to_table(rows)

    def _parsed(self, run: str, name: str, model: type[BaseModel]) -> dict[str, Any]:
        file = f"{self.place}: runs/{run}/{name}"
        with reading(file, "JSON", self.remedy):
            parsed: dict[str, Any] = json.loads(self.files_of(run)[name].decode())
        require_valid(parsed, model, file, self.remedy)
        return parsed

    def check(self) -> None:
        """Check that the archive contains the files that it lists, and that they agree.

        Raises:
            UserError: names the first file or value that is wrong.
        """
        described = self.description
        for place, record in described.user_files.items():
            if not re.fullmatch(INPUTS, place):
                self.refuse(f"user_files.{place!r} is not the place of a record")
            require_valid(record, UserFilesRecord, f"{self.place}: {STUDY}", self.remedy)
        for place, block in described.blocks.items():
            self._check_block(place, block)
        expected = {FILES + file for file in described.files}
        for run in self.listed:
            kinds = sorted(name.partition("-")[0] for name in self.files_of(run))
            if kinds not in (
                ["evaluated", "run.json"],
                ["evaluated", "run.json", "training.parquet"],
            ):
                self.refuse(
                    f"runs/{run} has {', '.join(kinds) or 'no files'}; expected its record,"
                    " one file of rows and at most one training curve"
                )
            expected |= self._by_run[run].keys()
        if differing := sorted(expected.symmetric_difference(self.content)):
            found = "missing" if differing[0] in expected else f"not listed in {STUDY}"
            self.refuse(f"{differing[0]} is {found}")
        for run in self.listed:
            self._check_run(run)
        for block in described.blocks.values():
            self._check_seeds(block)
        self.rows()  # raises an error if a value does not fit the schema of rows

    def _check_block(self, place: str, block: Block) -> None:
        manifest = block.manifest
        require_valid(manifest, Manifest, f"{self.place}: {STUDY}: {place}", self.remedy)
        study = self.description.study
        listed_for = (manifest["study"], manifest["dataset"], manifest["objective"])
        expected = (study, *place.split("/")[:2])
        if not re.fullmatch(PLACE, place) or listed_for != expected:
            self.refuse(
                f"{STUDY}: the block {place!r} has runs of {', '.join(listed_for)}; expected runs"
                f" of {', '.join(expected)}"
            )
        if block.names.keys() != {*NAMES} or block.names["study"] != study:
            self.refuse(
                f"{STUDY}: the block {place!r} has rows named {block.names}; expected"
                f" {', '.join(NAMES)} of {study}"
            )

    def _check_seeds(self, block: Block) -> None:
        """Check that each run occurs once in a block, as in its record."""
        runs = block.manifest["runs"]
        listed = {(run["id"], run["seed"], run["checksum"]) for run in runs}
        expected = {(run, self.records[run]["seed"], self.listed[run]) for run, *_ in listed}
        if listed != expected or len(listed) < len(runs) or not runs:
            self.refuse(f"{STUDY}: the runs {sorted(listed)[:2]} are not those of their records")

    def _check_run(self, run: str) -> None:
        record = self.records[run]
        if record["id"] != run or record.get("checksum") != self.listed[run]:
            self.refuse(f"runs/{run} and {STUDY} name different runs")
        of_run = Run(
            *(record[key] for key in ("study", "dataset", "objective", "seed", "settings"))
        )
        expected = run_id(of_run, record["data"])
        if expected != run:
            self.refuse(
                f"run {run} has settings and data of run {expected}; they were changed, or another"
                " version of TrueNeg exported them"
            )
        found = self.evaluation(run)
        kind = kind_of(record["settings"])
        digests = {
            evaluation_digest(kind, settings)
            for settings in (found["evaluated"]["settings"], self.description.evaluation)
        }
        name = RunStore.EVALUATED.replace("*", digests.pop())
        if digests or name not in self.files_of(run):
            self.refuse(f"runs/{run} was evaluated with other settings than those in {STUDY}")
        keys = {tuple(row[key] for key in ("split", *KEYS)) for row in found["rows"]}
        is_finite = all(math.isfinite(row["value"]) for row in found["rows"])
        if not is_finite or len(keys) < len(found["rows"]):
            self.refuse(f"runs/{run}: expected finite values, and each measurement once per split")
        curve = self.files_of(run).get(RunStore.CURVES)
        if curve is not None:
            with reading(f"{self.place}: runs/{run}/{RunStore.CURVES}", "a curve", self.remedy):
                pq.read_table(io.BytesIO(curve)).column("epoch")

    def refuse(self, problem: str) -> NoReturn:
        """Raise a user error about the archive."""
        raise UserError(f"{self.place}: {problem}. {self.remedy}")


def archives(folder: Path) -> list[Path]:
    """Return the archives in a folder, or the only one if `folder` is an archive."""
    return [folder] if folder.is_file() else sorted(folder.glob(f"[!.]*{SUFFIX}"))


def study_of(path: Path) -> str:
    """Return the name of the study that an archive is named after."""
    return path.name.removesuffix(SUFFIX)


def read_archive(path: Path) -> Archive:
    """Read and check the archive of a study.

    Raises:
        UserError: if it is damaged, has unknown or missing files, or its files disagree.
    """
    with reading(path, CONTENT, AGAIN):
        members = dict(_members(path))
        archive = Archive(Description.model_validate_json(members.pop(STUDY)), members, path)
        archive.check()
    return archive


def read_description(path: Path) -> Description:
    """Read the description in an archive, which is its first file."""
    with reading(path, CONTENT, AGAIN):
        return Description.model_validate_json(next(content for _, content in _members(path)))


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file; nothing is written to the disk."""
    seen = set[str]()
    size = 0
    with lzma.open(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
        for member in archive:
            name = member.name
            of_study = name.startswith(FILES) and name.removeprefix(FILES)
            is_known = (
                name == STUDY or re.fullmatch(OF_RUN, name) or (of_study and is_other(of_study))
            )
            size += member.size
            if size > LARGEST or member.issparse():
                raise UserError(f"{path}: {name!r} is larger than exports are. {AGAIN}")
            file = archive.extractfile(member) if member.isreg() else None
            if file is None or not is_known or name in seen or (not seen and name != STUDY):
                raise UserError(f"{path}: {name!r} is not a file of an exported study. {AGAIN}")
            seen.add(name)
            yield name, file.read()
        # At a damaged header, tarfile ends as after the last file; the stream's end has a checksum.
        while part := stream.read(CHUNK):
            size += len(part)
            if size > LARGEST:
                raise UserError(f"{path} is larger than exports are. {AGAIN}")


def is_other(file: str) -> bool:
    """Return whether a file below ``results/<study>`` is exported, besides the runs."""
    return re.fullmatch("|".join(OTHERS), file) is not None


def write_archive(path: Path, archive: Archive) -> None:
    """Write an archive; the same content gives the same bytes."""
    described = json.dumps(archive.description.model_dump(mode="json"), indent=1) + "\n"
    # files of the same kind beside each other are compressed best
    ordered = sorted(archive.content, key=lambda name: (name.rpartition("/")[2], name))
    preset = 9 | lzma.PRESET_EXTREME  # 4 to 9 % smaller, in three times the time
    with (
        atomic_write(path) as temporary,
        lzma.open(temporary, "wb", preset=preset) as stream,
        tarfile.open(fileobj=stream, mode="w") as file,
    ):
        for name in (STUDY, *ordered):
            data = described.encode() if name == STUDY else archive.content[name]
            member = tarfile.TarInfo(name)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))


def thinned(curve: DataFrame) -> bytes:
    """Return a parquet file with at most :data:`POINTS` epochs of a training curve, in single
    precision, encoded for an archive that is itself compressed.
    """
    kept = np.linspace(0, len(curve) - 1, min(len(curve), POINTS)).round().astype(int)
    floats = curve.select_dtypes("float").columns
    table = pa.Table.from_pandas(
        curve.iloc[kept].astype(dict.fromkeys(floats, "float32")), preserve_index=False
    )
    buffer = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata(),
        buffer,
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        store_schema=False,
        column_encoding=dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
    )
    return buffer.getvalue()
