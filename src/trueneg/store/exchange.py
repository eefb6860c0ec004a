"""Export the finished, evaluated runs of a study, and import them on machines without its data or
weights.

An archive (:mod:`trueneg.store.archive`) contains what cannot be remade without data or weights:
the folders of runs, and some other files. An import adds them to the results, and gathers the files
of blocks from the folders, as the evaluation does; the winners of a tuned study are computed from
the pilots' rows, and all other summaries are left to Snakemake.
"""

import io
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.config.contradictions import RESERVED_NAMES
from trueneg.config.runs import Job, all_runs
from trueneg.errors import UserError
from trueneg.io.files import writable, write_bytes, write_text
from trueneg.io.seals import is_sealed, require_intact, seal
from trueneg.legible import counted
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sections import Section
from trueneg.specs.settings import Study
from trueneg.store.archive import (
    AGAIN,
    FILES,
    SUFFIX,
    Archive,
    Block,
    Description,
    is_other,
    read_archive,
    read_description,
    study_of,
    thinned,
    write_archive,
)
from trueneg.store.blocks import absent, block_files, listed, planned_blocks
from trueneg.store.data_input import DataInput, of_dataset, of_joined_reports
from trueneg.store.evaluations import evaluation_file, gather_block, listed_for
from trueneg.store.identity import different_settings
from trueneg.store.protocol import PROTOCOL, committed_protocol
from trueneg.store.records import Manifest, Protocol, UserFilesRecord, read_json, read_rows
from trueneg.store.run_store import RunStore
from trueneg.store.winners import VALIDATION, WINNERS, Decision, as_text, select_from, selecting


def export_study(
    name: str, studies: Mapping[str, Study], results: Path, folder: Path
) -> str | None:
    """Write the finished, evaluated runs of a study to an archive, which replaces an earlier one.

    The same results give the same bytes.

    Args:
        name: name of the study.
        studies: all studies of its configuration.
        results: the results folder.
        folder: folder of the archives, one per study.

    Returns:
        A sentence that says what was exported and what is missing; None if there is nothing to
            export.

    Raises:
        UserError: if the study's data are restricted, a file is damaged, or there is another file
            with the archive's name.
    """
    target = folder / f"{name}{SUFFIX}"
    if _is_restricted(name, studies):
        raise UserError(
            f"{name} uses restricted data, so its results are not exported. Name the other studies"
            " with --study."
        )
    if target.exists():
        _refuse_other_file(target, name)
    source = results / name
    archive = _archive_of_runs(name, studies[name], results, target)
    described = archive.description
    described.files = _others(source, described.blocks)
    if not described.blocks and not described.files:
        return None
    require_intact(results, [source / file for file in described.files])
    archive.content |= {FILES + file: (source / file).read_bytes() for file in described.files}
    for place, data in {data.place: data for data in _inputs(name, studies)}.items():
        if (path := data.record(results)).is_file():
            described.user_files[place] = read_json(path, UserFilesRecord)
    if protocol := committed_protocol(name, getattr(studies[name], "protocol", None), results):
        described.protocol = Protocol.model_validate(protocol)
    archive.check()
    write_archive(target, archive)
    return (
        f"{name}: exported {counted(len(archive.listed), 'run')} to {target}"
        f" ({target.stat().st_size / 1e6:.1f} MB){_missing(described.missing)}."
    )


def _refuse_other_file(target: Path, name: str) -> None:
    """Refuse to replace a file that is no archive of the study."""
    try:
        found = read_description(target).study
    except UserError:
        found = "no readable archive"
    if found != name:
        raise UserError(
            f"{target} exists and is {found}; expected nothing, or an earlier export of {name}."
            " Move it away, or choose another folder."
        )


def _archive_of_runs(name: str, study: Study, results: Path, target: Path) -> Archive:
    """Return an archive of the study's runs, which says what is missing, and of its decision."""
    remedy = (
        "Run `snakemake --forcerun evaluate` with the study's configuration, then export again."
    )
    archive = Archive(Description(format=3, study=name), {}, target, remedy)
    if not isinstance(study, TrainedStudy):
        return archive
    described = archive.description
    described.evaluation = study.evaluation.model_dump(mode="json")
    store = RunStore(results / "runs")
    pilots = []
    for place, job in planned_blocks(name, study).items():
        pilots += [place] * job.is_pilot
        if reason := _missing_or_outdated(results / name, place, job, store, described.evaluation):
            described.missing[place] = reason
            continue
        manifest, rows, _, runs = (results / name / file for file in block_files(place))
        listed_runs = read_json(manifest, Manifest)
        names = listed_for(listed_runs) | job.row_names
        block = Block(names=names, manifest=listed_runs)
        if reason := _differs(store, block, described.evaluation, rows, runs):
            described.missing[place] = reason
            continue
        described.blocks[place] = block
        for run in listed_runs["runs"]:
            archive.content |= _files_of(store, run["id"], described.evaluation, not job.is_pilot)
    if pilots and described.blocks.keys() >= {*pilots}:
        winners, _ = select_from(archive.rows(*pilots), selecting(study))
        described.tuning = Decision.of(winners)
    return archive


def _missing_or_outdated(
    source: Path, place: str, job: Job, store: RunStore, evaluation: Section
) -> str:
    """Return why a block is not exported; empty if its runs are evaluated and up to date."""
    if reason := absent(source, place):
        return reason
    listed = read_json(source / block_files(place)[0], Manifest)["runs"]
    if any(store.state(run["id"]) not in RunStore.TRAINED for run in listed):
        return "not trained"
    recorded = {run["seed"]: store.record(run["id"])["settings"] for run in listed}
    requested = [{run.seed: run.settings for run in choice.runs} for choice in job.choices.values()]
    if not any(
        settings.keys() == recorded.keys()
        and not any(different_settings(recorded[seed], settings[seed]) for seed in recorded)
        for settings in requested
    ):
        return "trained with other settings"
    # raises an error if a model is damaged: its rows may be wrong, too
    if any(store.checksum(run["id"]) != run["checksum"] for run in listed):
        return "trained again since its evaluation"
    if not all(evaluation_file(store, run["id"], evaluation).is_file() for run in listed):
        return "not evaluated with these settings"
    return ""


def _differs(store: RunStore, block: Block, evaluation: Section, rows: Path, runs: Path) -> str:
    """Return why the rows of a block are not exported: they are not those in the folders of its
    runs, or not finite; empty if they can be.
    """
    require_intact(store.path.parent, [rows, runs])
    tables = gather_block(store, block.manifest, block.names, evaluation)
    if not tables.rows.equals(read_rows(rows)) or tables.runs != read_json(runs):
        return "measured again since its rows were gathered"
    if not np.isfinite(tables.rows["value"]).all():
        return "some of its values are not finite"
    return ""


def _files_of(
    store: RunStore, identifier: str, evaluation: Section, with_curve: bool
) -> dict[str, bytes]:
    """Return the content of a run's files in an archive."""
    folder = store.folder(identifier)
    evaluated = evaluation_file(store, identifier, evaluation)
    files = {path.name: path.read_bytes() for path in (folder / RunStore.RECORD, evaluated)}
    curve = folder / RunStore.CURVES
    if with_curve and curve.is_file():
        files[curve.name] = thinned(read_rows(curve))
    return {f"runs/{identifier}/{name}": content for name, content in files.items()}


def _others(folder: Path, places: Iterable[str]) -> list[str]:
    """List the files of a study, other than those of blocks, that cannot be remade without data or
    weights.
    """
    seeds = {(place.split("/")[0], place.split("/")[2]) for place in places}
    subsets = {f"subsets/{dataset}/{block}.parquet" for dataset, block in seeds}
    files = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.parquet"))]
    return [
        file
        for file in files
        if (file in subsets if file.startswith("subsets/") else is_other(file))
    ]


def _missing(reasons: Mapping[str, str]) -> str:
    named = [f"{place} ({reason})" for place, reason in reasons.items()]
    return f"; missing: {listed(named)}" if named else ""


def import_study(path: Path, results: Path, stamp: int | None = None) -> str:
    """Add an exported study to the results; nothing is written unless all of it is intact.

    Runs that were trained here are kept, and so are the files of their blocks. What is imported
    gets one modification time, because Snakemake makes a file again if an input is newer.

    Args:
        path: the study's archive.
        results: the results folder.
        stamp: the modification time, in nanoseconds; None: now. Studies that use each other's files
            need the same one.

    Returns:
        A sentence that says what was imported.

    Raises:
        UserError: if a file is missing, damaged or foreign, a run's id does not follow from its
            settings and data, or the winners do not follow from the pilot seeds' rows.
    """
    archive = read_archive(path)
    described = archive.description
    name = study_of(path)
    is_hidden = name.startswith(".") or not name  # might lead out of the results, or into the seals
    if is_hidden or name in RESERVED_NAMES or described.study != name:
        raise UserError(
            f"{path} contains the study {described.study!r}; expected an archive named after its"
            " study, whose name does not begin with a dot and is none of"
            f" {', '.join(RESERVED_NAMES)}."
        )
    decided = _decided(archive)
    store = RunStore(results / "runs")
    kept = {run for run in archive.listed if not _import_run(archive, run, store)}
    made = []
    for place in described.blocks:
        if trained := _trained_here(archive, place, store, kept):
            kept |= trained
        else:
            made += _import_block(archive, place, results)
    files = {results / name / file: data for file, data in (archive.others() | decided).items()}
    if described.protocol is not None:
        files[results / name / PROTOCOL] = _json(described.protocol.model_dump())
    for file, data in files.items():
        is_there = file.is_file() and is_sealed(results, file)
        if not is_there or (not kept and file.read_bytes() != data):
            write_bytes(file, data)
            seal(results, [file])
            made.append(file)
    made += _import_data_records(described, results)
    stamp = stamp or time.time_ns()
    for file in made if kept else {*made, *files}:
        with writable(file):
            os.utime(file, ns=(stamp, stamp))
    note = _kept(described, kept, store) if kept else ""
    added = counted(len(archive.listed.keys() - kept), "run")
    return f"{name}: imported {added}{note}{_missing(described.missing)}."


def _kept(described: Description, kept: Collection[str], store: RunStore) -> str:
    """Say how many runs are kept, and which blocks the study therefore lacks."""
    folder = store.path.parent / described.study
    absent = [place for place in described.blocks if not (folder / block_files(place)[0]).is_file()]
    note = f"; kept {counted(len(kept), 'run')} already in {store.path}"
    if absent:
        note += (
            f"; not imported: {', '.join(absent)}, whose runs in that store are of another"
            " training. Train these blocks here, or import the study into another folder"
        )
    return note


def _import_data_records(description: Description, results: Path) -> list[Path]:
    """Write the records of the data that were read, unless there are own ones, and return them; no
    seals, because jobs that read the data rewrite them.
    """
    records = {
        results / f"{place}.files.json": record for place, record in description.user_files.items()
    }
    absent = [file for file in records if not file.exists()]
    for file in absent:
        write_bytes(file, _json(records[file]))
    return absent


def _trained_here(archive: Archive, place: str, store: RunStore, kept: set[str]) -> set[str]:
    """Return the runs of a block, or of what is in its place, that are kept because they were
    trained here.
    """
    listed_runs = {run["id"] for run in archive.description.blocks[place].manifest["runs"]}
    present = store.path.parent / archive.description.study / block_files(place)[0]
    if present.is_file():
        runs = read_json(present, Manifest)["runs"]
        kept = kept | {run["id"] for run in runs if store.state(run["id"]) == "finished"}
        listed_runs |= {run["id"] for run in runs}
    return kept & listed_runs


def _import_block(archive: Archive, place: str, results: Path) -> list[Path]:
    """Write the files of a block, and return them."""
    described = archive.description
    block = described.blocks[place]
    manifest, *others = files = [results / described.study / file for file in block_files(place)]
    without_curve = [
        run["id"]
        for run in block.manifest["runs"]
        if RunStore.CURVES not in archive.files_of(run["id"])
    ]
    tables = gather_block(
        RunStore(results / "runs"),
        block.manifest,
        block.names,
        described.evaluation,
        without_curve,
    )
    write_text(manifest, json.dumps(block.manifest, indent=2) + "\n")
    tables.write(*others)
    seal(results, files)
    return files


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def _decided(archive: Archive) -> dict[str, bytes]:
    """Return the files of a tuned study's winners, computed from the pilot seeds' rows; refuse
    another decision.
    """
    decision = archive.description.tuning
    if decision is None:
        return {}
    pilots = [
        place
        for place, block in archive.description.blocks.items()
        if {run["seed"] for run in block.manifest["runs"]} <= {*decision.seeds}
    ]
    try:
        rows = archive.rows(*pilots)
        content, validation = select_from(rows, decision.model_dump())
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{archive.place}: the rows do not contain the candidates and pilot seeds of the"
            f" tuning. {AGAIN}"
        ) from error
    variants = {
        objective: {*of_objective["variant"]}
        for objective, of_objective in rows.groupby("objective")
    }
    if Decision.of(content) != decision or variants != {
        name: {*choices} for name, choices in decision.candidates.items()
    }:
        differing = sorted({*decision.lines()} ^ {*Decision.of(content).lines()}) or [
            "other candidates or pilot seeds"
        ]
        archive.refuse(
            f"the winners do not follow from the pilot seeds' rows ({'; '.join(differing[:2])})"
        )
    buffer = io.BytesIO()
    validation.to_parquet(buffer, index=False)
    return {WINNERS: as_text(content).encode(), VALIDATION: buffer.getvalue()}


def _is_restricted(name: str, studies: Mapping[str, Study]) -> bool:
    """Return whether texts or images of a study must not be shown."""
    study = studies[name]
    data = getattr(study, "dataset", None) or getattr(study, "reports", None)
    texts = getattr(data, "text", None)
    of_texts = texts is not None and _is_restricted(texts, studies)
    return of_texts or getattr(data, "restricted", False)


def _inputs(name: str, studies: Mapping[str, Study]) -> Iterator[DataInput]:
    """Yield the inputs of a study that trains."""
    study = studies[name]
    if not isinstance(study, TrainedStudy):
        return
    # each seed may have its own corpus
    for run in all_runs(name, study):
        dataset = run.settings["dataset"]
        yield of_dataset(study, dataset, studies)
        if dataset.get("text") is not None:
            yield of_joined_reports(dataset, studies)


def _import_run(archive: Archive, identifier: str, store: RunStore) -> bool:
    """Write the files of a run to the store, unless they are there; return False if another
    training of the run is kept instead.
    """
    files = archive.files_of(identifier) | {RunStore.IMPORTED: b"by trueneg rows import\n"}
    results = store.path.parent
    with store.owned(identifier, patience=60) as folder:
        state = store.state(identifier)
        if state == "imported":  # maybe by another study
            if store.checksum(identifier) != archive.listed[identifier]:
                return False
        elif state == "finished":
            return False
        else:  # nothing of an earlier training or import may remain
            store.clear(identifier)
            for name in (RunStore.CURVES, RunStore.MODEL):
                (folder / name).unlink(missing_ok=True)
        for name, content in files.items():
            path = folder / name
            is_own = path.match(RunStore.EVALUATED)
            if not is_sealed(results, path) or (is_own and path.read_bytes() != content):
                write_bytes(path, content)
        store.forget_progress(identifier)
        seal(results, [folder / name for name in files])
    return True
