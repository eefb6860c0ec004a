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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.config.contradictions import RESERVED_NAMES
from trueneg.config.runs import Job, Run, all_runs
from trueneg.errors import UserError
from trueneg.io.files import atomic_write, write_text
from trueneg.io.seals import damage, require_intact, seal
from trueneg.legible import counted
from trueneg.specs.kinds.trained import TrainedStudy
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
from trueneg.store.identity import different_settings, run_id
from trueneg.store.protocol import PROTOCOL, committed_protocol
from trueneg.store.records import Manifest, Protocol, Record, UserFilesRecord, read_json, read_rows
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
        read_description(target)  # refuses to replace anything else
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


def _archive_of_runs(name: str, study: Study, results: Path, target: Path) -> Archive:
    """Return an archive of the study's runs, which says what is missing, and of its decision."""
    remedy = (
        "Run `snakemake --forcerun evaluate` with the study's configuration, then export again."
    )
    archive = Archive(Description(study=name), {}, target, remedy)
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
        manifest = read_json(results / name / block_files(place)[0], Manifest)
        names = listed_for(manifest) | job.row_names
        described.blocks[place] = Block(names=names, manifest=manifest)
        for run in manifest["runs"]:
            archive.content |= _files_of(store, run["id"], described.evaluation, not job.is_pilot)
    if pilots and described.blocks.keys() >= {*pilots}:
        winners, _ = select_from(archive.rows(*pilots), selecting(study))
        described.tuning = Decision.of(winners)
    return archive


def _missing_or_outdated(
    source: Path, place: str, job: Job, store: RunStore, evaluation: Mapping[str, Any]
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
    if not all(evaluation_file(store, run["id"], evaluation) for run in listed):
        return "not evaluated with these settings"
    return ""


def _files_of(
    store: RunStore, identifier: str, evaluation: Mapping[str, Any], with_curve: bool
) -> dict[str, bytes]:
    """Return the content of a run's files in an archive."""
    folder = store.folder(identifier)
    evaluated = evaluation_file(store, identifier, evaluation)
    assert evaluated is not None
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
        file for file in files if file in subsets or (is_other(file) and file[:8] != "subsets/")
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
    if name in RESERVED_NAMES or described.study != name:
        raise UserError(
            f"{path} contains the study {described.study}; expected an archive named after its"
            f" study, whose name is none of {', '.join(RESERVED_NAMES)}."
        )
    for run, record in archive.records.items():
        _refuse_foreign(archive, run, record)
    decided = _decided(archive)
    store = RunStore(results / "runs")
    outcomes = {run: _import_run(archive, run, store) for run in archive.listed}
    kept = [run for run, outcome in outcomes.items() if outcome == "kept"]
    made = [
        file
        for place in described.blocks
        for file in _import_block(archive, place, outcomes, results)
    ]
    files = {results / name / file: data for file, data in (archive.others() | decided).items()}
    files |= _described(described, results)
    for file, data in files.items():
        if not file.exists() or (not kept and file.read_bytes() != data):
            with atomic_write(file) as temporary:
                temporary.write_bytes(data)
            made.append(file)
    # jobs that read the data rewrite their records
    seal(results, [file for file in made if not file.name.endswith(".files.json")])
    if made and not kept:  # so that none is older than another one
        places = described.blocks
        made = [*files, *(results / name / file for place in places for file in block_files(place))]
    stamp = stamp or time.time_ns()
    for file in made:
        os.utime(file, ns=(stamp, stamp))
    note = f"; kept {counted(len(kept), 'run')} already in {store.path}" if kept else ""
    added = counted(len(archive.listed) - len(kept), "run")
    return f"{name}: imported {added}{note}{_missing(described.missing)}."


def _import_block(
    archive: Archive, place: str, outcomes: Mapping[str, str], results: Path
) -> list[Path]:
    """Write the files of a block, unless one of its runs was trained here, or they are those of an
    earlier import; return them.
    """
    described = archive.description
    block = described.blocks[place]
    files = [results / described.study / file for file in block_files(place)]
    of_runs = {outcomes[run["id"]] for run in block.manifest["runs"]}
    is_present = "added" not in of_runs and _is_intact(block, files, results)
    if "kept" in of_runs or is_present:
        return []
    store = RunStore(results / "runs")
    write_text(files[0], json.dumps(block.manifest, indent=2) + "\n")
    gather_block(store, block.manifest, block.names, described.evaluation).write(*files[1:])
    return files


def _is_intact(block: Block, files: Sequence[Path], results: Path) -> bool:
    """Return whether the files of a block are those of an earlier import of it."""
    if not all(file.is_file() and not damage(results, file) for file in files):
        return False
    return bool(json.loads(files[0].read_text()) == block.manifest)


def _described(description: Description, results: Path) -> dict[Path, bytes]:
    """Return the files with the protocol of a study and the records of its data."""
    files = {
        results / f"{place}.files.json": _json(record)
        for place, record in description.user_files.items()
    }
    if description.protocol is not None:
        path = results / description.study / PROTOCOL
        files[path] = _json(description.protocol.model_dump())
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


def _refuse_foreign(archive: Archive, identifier: str, record: Record) -> None:
    """Check that a run's id follows from its settings and data."""
    run = Run(*(record[key] for key in ("study", "dataset", "objective", "seed", "settings")))
    expected = run_id(run, record["data"])
    if expected != identifier:
        archive.refuse(
            f"run {identifier} has settings and data of run {expected}; they were changed, or"
            " another version of TrueNeg exported them"
        )


def _import_run(archive: Archive, identifier: str, store: RunStore) -> str:
    """Write the files of a run to the store.

    Returns:
        ``"added"``; ``"present"`` if they were already there; or ``"kept"`` if another training of
            the run is kept instead.
    """
    checksum = archive.listed[identifier]
    folder = store.folder(identifier)
    state = store.state(identifier)
    if state == "finished" or (state == "imported" and store.checksum(identifier) != checksum):
        return "kept"
    files = archive.files_of(identifier)
    if state == "imported":  # another study may have brought the same run
        files = {
            name: content
            for name, content in files.items()
            if not (folder / name).is_file()
            or (Path(name).match(RunStore.EVALUATED) and (folder / name).read_bytes() != content)
        }
        if not files:
            return "present"
    files[RunStore.IMPORTED] = f"{archive.place.name}\n".encode()
    with store.owned(identifier):
        for name, content in files.items():
            with atomic_write(folder / name) as temporary:
                temporary.write_bytes(content)
        store.forget_progress(identifier)
        seal(store.path.parent, [folder / name for name in files])
    return "added"
