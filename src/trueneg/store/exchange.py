"""Export the finished, evaluated runs of a study, and import them on machines without its data or weights.

The exported folder of a study has the layout of ``results/<study>``. It contains the manifest, rows, training curves and records
of each block of seeds, the subsets and winners, and the artefacts that cannot be remade without data or weights. ``user_files``
contains the records of the data that were read; ``sha256sums.txt`` lists the checksum of every file.
"""

import filecmp
import functools
import hashlib
import itertools
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trueneg.config.contradictions import RESERVED_NAMES
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import Run, all_runs, training_kind
from trueneg.config.trained_study import TrainedStudy
from trueneg.errors import UserError
from trueneg.io.files import atomic_write, file_checksum, writable, write_tables, write_text
from trueneg.specs.settings import Study
from trueneg.stats.measurement import KEYS
from trueneg.store import user_files
from trueneg.store.identity import run_id, same_evaluation
from trueneg.store.records import AGAIN as RECREATE
from trueneg.store.records import EvaluatedRun, Evaluation, Manifest, RunRecord, UserFilesRecord, read_json, read_rows
from trueneg.store.rows import IDENTITY, load_rows
from trueneg.store.run_store import RunStore

SUMS = "sha256sums.txt"
READ = "user_files"  # folder of the records of the user's files
BLOCK = ("manifests/{}.json", "rows/{}.parquet", "artefacts/curves/{}.parquet", "artefacts/runs/{}.json")
# Files that Snakemake would make from data or weights; it makes the other artefacts from the files of the blocks.
PICTURES = ("embedding", "retrieval", "similarities", "overlays", "human_ratings", "rating_references", "assumption")
FURTHER = (
    "tuning/*",
    "artefacts/tuning.parquet",
    "text/*/eta.parquet",
    "artefacts/class_probabilities.parquet",
    *(f"artefacts/{name}/**/*.parquet" for name in PICTURES),
)
IMPORTABLE = re.compile(rf"(manifests|rows|subsets|tuning|text|artefacts)/.+|{READ}/.+\.files\.json")
AGAIN = "Copy the exported folder again."


class Block(NamedTuple):
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
    rows: pd.DataFrame
    curves: pd.DataFrame

    @property
    def files(self) -> list[str]:
        """The paths of the block's files in the folder of the study."""
        return [pattern.format(self.place) for pattern in BLOCK]


def export_study(name: str, studies: Mapping[str, Study], results: Path, folder: Path) -> str | None:
    """Write the finished, evaluated runs of a study to a subfolder, which replaces an earlier export.

    The same results give the same bytes. The folder, table or archive of a data set is written as the configuration names it,
    not as a path of this machine; other paths in settings are kept.

    Args:
        name: name of the study.
        studies: all studies of its configuration.
        results: the results folder.
        folder: folder of the exports, one subfolder per study.

    Returns:
        A sentence that says what was exported; None if there is nothing to export.

    Raises:
        UserError: if the study's data are restricted, a file is damaged, or the subfolder is not an export.
    """
    source, target = results / name, folder / name
    if _is_restricted(name, studies):
        raise UserError(f"{name} uses restricted data, so its results are not exported. Name the other studies with --study.")
    if target.exists() and not (target / SUMS).is_file():
        raise UserError(f"{target} exists and is not an exported study; choose another folder.")
    store = RunStore(results / "runs")
    places = [path.relative_to(source / "rows").with_suffix("").as_posix() for path in sorted(source.glob("rows/*/*/*.parquet"))]
    complete = [place for place in places if all((source / pattern.format(place)).is_file() for pattern in BLOCK)]
    blocks = [block for place in complete if not _is_outdated(block := _read_block(source, place), store)]
    files: dict[str, Path] = {place: source / place for block in blocks for place in block.files[:-1]}  # without the records
    subsets = {f"subsets/{dataset}/{seeds}.parquet" for dataset, _, seeds in (block.place.split("/") for block in blocks)}
    files |= {place: source / place for place in subsets if (source / place).is_file()}
    files |= {path.relative_to(source).as_posix(): path for form in FURTHER for path in source.glob(form) if path.is_file()}
    if not files:
        return None
    study: Any = studies[name]
    texts = {block.files[-1]: _placed_runs(block.records, study.dataset.model_dump()) for block in blocks}
    for recorded, reading in _readings(name, studies, [record for block in blocks for record in block.records]):
        path, place = recorded.record(results), f"{READ}/{reading.place}.files.json"
        record = user_files.moved(read_json(path, UserFilesRecord), reading.settings) if path.is_file() else None
        if record is not None:
            texts.setdefault(place, json.dumps(record, indent=1) + "\n")
    _write(files, texts, target)
    size = sum(path.stat().st_size for path in target.rglob("*") if path.is_file()) / 1e6
    runs = {identifier for block in blocks for identifier in block.checksums}
    return f"{name}: exported {len(runs)} runs in {len({*files, *texts})} files to {target} ({size:.1f} MB)."


def import_study(folder: Path, results: Path) -> str:
    """Add an exported study to the results; nothing is written unless all of its files are intact.

    Runs that are already in the store are kept, and so are the files of their blocks. All files get the same modification time,
    because Snakemake makes a file again if an input is newer.

    Args:
        folder: the study's subfolder of the exports.
        results: the results folder.

    Returns:
        A sentence that says what was imported.

    Raises:
        UserError: if a file is missing, damaged or foreign, or a run's id does not follow from its settings and data.
    """
    name, stamp = folder.name, time.time_ns()
    if name in RESERVED_NAMES:
        raise UserError(f"{folder}: {name} is not allowed as the name of a study.")
    places, store = _intact(folder), RunStore(results / "runs")
    blocks = [_foreign_block(folder, place, places) for place in places if place.startswith("rows/")]
    added = {record["id"]: _import_run(record, block, store) for block in blocks for record in block.records}
    of_blocks = {place for block in blocks for place in block.files}
    own = [place for place in places if not place.startswith(f"{READ}/")]
    unchanged, *_ = filecmp.cmpfiles(folder, results / name, own, shallow=False)
    if all(added.values()) and unchanged != own:  # nothing was trained here: copy all, so that no file is older than its inputs
        for place in own:
            _copy(folder / place, results / name / place, stamp)
    for block in blocks:
        unchanged, *_ = filecmp.cmpfiles(folder, results / name, block.files, shallow=False)
        if all(added[run] for run in block.checksums) and unchanged != block.files:
            for place in block.files:
                _copy(folder / place, results / name / place, stamp)
    for place in sorted(set(places) - of_blocks):
        target = results / (place.removeprefix(f"{READ}/") if place.startswith(f"{READ}/") else f"{name}/{place}")
        if not target.exists():
            _copy(folder / place, target, stamp)
    kept = len(added) - sum(added.values())
    note = f"; kept {kept} runs that are already in {store.path}" if kept else ""
    return f"{name}: imported {sum(added.values())} runs{note}."


def imported_rows(store: RunStore, identifier: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``rows`` of an imported run that were measured with the given settings, and how they were ``evaluated``.

    Raises:
        UserError: if no such rows were imported.
    """
    folder, record = store.folder(identifier), store.record(identifier, RunRecord)
    for path in sorted(folder.glob(RunStore.EVALUATED)):
        found = read_json(path, Evaluation, "Remove its folder to train the run again.")
        if same_evaluation(training_kind(record["settings"]), found["evaluated"]["settings"], settings):
            return found | {"rows": [{"seed": record["seed"], "run": identifier, **row} for row in found["rows"]]}
    problem = "this run was imported without weights, and its rows were measured with other evaluation settings"
    raise UserError(f"{folder}: {problem}. Restore them, or remove this folder and the manifests that list it to train it again.")


def _is_restricted(name: str, studies: Mapping[str, Any]) -> bool:
    """Return whether texts or images of a study must not be shown."""
    study = studies[name]
    if isinstance(study, ImageTextStudy):
        dataset: Any = study.dataset
        return _is_restricted(dataset.text, studies) or getattr(dataset, "restricted", False)
    return isinstance(study, LikelihoodStudy) and getattr(study.reports, "restricted", False)


def _readings(
    name: str, studies: Mapping[str, Any], records: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[user_files.Reading, user_files.Reading]]:
    """Yield the inputs of a study that trains, as they may have been recorded and as the configuration names them.

    Args:
        name: name of the study.
        studies: all studies of its configuration.
        records: records of its runs; they name the data by the paths at the time.
    """
    study = studies[name]
    kinds = [user_files.of_images]
    if isinstance(study, ImageTextStudy):
        kinds = [functools.partial(kind, studies=studies) for kind in (user_files.of_pairs, user_files.of_joined_reports)]
    found = [{key: record["settings"]["dataset"].get(key) for key in user_files.PLACES} for record in records]
    paths = {json.dumps(one): one for one in found}.values()
    runs = all_runs(name, study) if isinstance(study, TrainedStudy) else []  # each seed may have its own corpus
    for dataset in {json.dumps(run.settings["dataset"]): run.settings["dataset"] for run in runs}.values():
        for kind, recorded in itertools.product(kinds, [{}, *paths]):
            yield kind({key: recorded.get(key, value) for key, value in dataset.items()}), kind(dataset)


def _placed_runs(records: Iterable[dict[str, Any]], dataset: Mapping[str, Any]) -> str:
    """Return the records of runs as JSON, with the data where the configuration has them."""
    placed = []
    for record in records:
        settings = record["settings"] | {"dataset": user_files.placed(record["settings"]["dataset"], dataset)}
        placed.append(record | {"settings": settings})
    return json.dumps(placed, indent=2) + "\n"


def _is_outdated(block: Block, store: RunStore) -> bool:
    """Return whether a run was trained again after it was evaluated."""
    trained = [record for record in block.records if store.state(record["id"]) in RunStore.TRAINED]
    return any(store.record(record["id"])["finished"] != record["finished"] for record in trained)


def _read_block(folder: Path, place: str, remedy: str = RECREATE) -> Block:
    manifest, rows, curves, runs = (folder / pattern.format(place) for pattern in BLOCK)
    listed = read_json(manifest, Manifest, remedy)["runs"]
    block = Block(
        place,
        {run["id"]: run["checksum"] for run in listed},
        read_json(runs, [EvaluatedRun], remedy),
        load_rows(rows),
        read_rows(curves, ["run"], remedy),
    )
    named = {runs: {record["id"] for record in block.records}, rows: set(block.rows["run"]), curves: set(block.curves["run"])}
    for path, found in named.items():
        if found != block.checksums.keys():
            raise UserError(f"{path} and {manifest} name different runs. {remedy}")
    if not np.isfinite(block.rows["value"]).all() or block.rows.duplicated(["run", "split", *KEYS]).any():
        raise UserError(f"{rows}: expected finite values, and each measurement once per run and split. {remedy}")
    return block


def _foreign_block(folder: Path, rows: str, places: Iterable[str]) -> Block:
    """Read a block to import; check that it belongs to the study, and that its runs' ids follow from their settings and data."""
    place = rows.removeprefix("rows/").removesuffix(".parquet")
    if missing := sorted({pattern.format(place) for pattern in BLOCK}.difference(places)):
        raise UserError(f"{folder / SUMS} does not list {missing[0]}. {AGAIN}")
    block = _read_block(folder, place, AGAIN)
    if (studies := set(block.rows["study"])) != {folder.name}:
        raise UserError(
            f"{folder} contains rows of {', '.join(studies)}; expected a folder named after the study whose rows it contains."
        )
    for record in block.records:
        run = Run(*(record[key] for key in ("study", "dataset", "objective", "seed", "settings")))
        if (expected := run_id(run, record.get("data", record["source"]["checksum"]))) != record["id"]:
            found = f"{folder / block.files[-1]}: run {record['id']} has settings and data of run {expected}"
            raise UserError(f"{found}; they were changed, or another version of TrueNeg exported them. {AGAIN}")
    return block


def _import_run(record: Mapping[str, Any], block: Block, store: RunStore) -> bool:
    """Write an exported run to the store, and return True; return False if another training of it is kept instead."""
    identifier, checksum = record["id"], block.checksums[record["id"]]
    own = {key: value for key, value in record.items() if key != "evaluated"} | {"checksum": checksum}
    rows = block.rows.loc[block.rows["run"] == identifier, ["split", *KEYS, "value"]].astype(object)
    evaluation = {"evaluated": record["evaluated"], "rows": rows.where(rows.notna(), None).to_dict("records")}
    settings = json.dumps(record["evaluated"]["settings"], sort_keys=True)
    name = RunStore.EVALUATED.replace("*", hashlib.sha256(settings.encode()).hexdigest()[:8])
    with store.owned(identifier) as folder:
        state = store.state(identifier)
        if state == "finished" or (state == "imported" and store.checksum(identifier) != checksum):
            return False
        write_text(folder / name, json.dumps(evaluation, indent=1, allow_nan=False) + "\n")
        if state != "imported":
            curves = block.curves[block.curves["run"] == identifier]
            write_tables({folder / RunStore.CURVES: curves.drop(columns=IDENTITY, errors="ignore")})
            write_text(folder / RunStore.RECORD, json.dumps(own, indent=2) + "\n")
            store.forget_progress(identifier)
    return True


def _write(files: Mapping[str, Path], texts: Mapping[str, str], target: Path) -> None:
    """Copy files and write texts and all their checksums to a new folder, then replace the target with it."""
    made = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with writable(target):
            for place, path in files.items():
                (made / place).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, made / place)
            for place, text in texts.items():
                write_text(made / place, text)
            sums = (f"{file_checksum(made / place)}  {place}\n" for place in sorted({*files, *texts}))
            (made / SUMS).write_text("".join(sums))
            if target.exists():
                shutil.rmtree(target)
            made.rename(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _intact(folder: Path) -> list[str]:
    """Return the paths of all files of an exported study after comparing them with their checksums."""
    places = []
    for line in (folder / SUMS).read_text(errors="replace").splitlines():
        checksum, _, place = line.partition("  ")
        path = folder / place
        inside = path.resolve().is_relative_to(folder.resolve()) and ".." not in PurePosixPath(place).parts
        if not inside or not IMPORTABLE.fullmatch(place):
            raise UserError(f"{folder / SUMS} lists {place!r}, which is not part of an exported study. {AGAIN}")
        if not path.is_file() or file_checksum(path) != checksum:
            raise UserError(f"{path} is missing or does not match its checksum in {SUMS}. {AGAIN}")
        places.append(place)
    return places


def _copy(path: Path, target: Path, modified: int) -> None:
    with atomic_write(target) as temporary:
        shutil.copyfile(path, temporary)
    os.utime(target, ns=(modified, modified))
