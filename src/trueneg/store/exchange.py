"""Export the finished, evaluated runs of a study, and import them on machines without its data or
weights.

:mod:`trueneg.store.evidence` describes and reads the exported folder. Only what cannot be remade
without data or weights is
exchanged: an import recomputes the winners of a tuned study, and leaves all other summaries to
Snakemake.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pandas import DataFrame

from trueneg.config.contradictions import RESERVED_NAMES
from trueneg.config.runs import Job, Run, all_runs
from trueneg.errors import UserError
from trueneg.io.files import atomic_write, write_tables, write_text
from trueneg.io.seals import require_intact, seal
from trueneg.legible import counted
from trueneg.specs.kinds import kind_of
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sections import Section
from trueneg.specs.settings import Study
from trueneg.stats.measurement import KEYS
from trueneg.store.blocks import absent, block_files, listed, planned_blocks
from trueneg.store.data_input import DataInput, of_dataset, of_joined_reports
from trueneg.store.evidence import (
    AGAIN,
    EPOCHS,
    STUDY,
    Evidence,
    EvidenceBlock,
    parquet,
    read_evidence,
    read_results,
    table_of,
    write_evidence,
)
from trueneg.store.identity import different_settings, run_id, same_evaluation
from trueneg.store.protocol import PROTOCOL, Protocol, committed_protocol
from trueneg.store.records import AGAIN as RECREATE
from trueneg.store.records import EvaluatedRun, Record, RunRecord, UserFilesRecord, read_json
from trueneg.store.rows import IDENTITY
from trueneg.store.run_store import RunStore
from trueneg.store.winners import VALIDATION, WINNERS, Decision, as_text, select_from, selecting


def export_study(
    name: str, studies: Mapping[str, Study], results: Path, folder: Path
) -> str | None:
    """Write the finished, evaluated runs of a study to a subfolder, which replaces an earlier
    export.

    The same results give the same bytes.

    Args:
        name: name of the study.
        studies: all studies of its configuration.
        results: the results folder.
        folder: folder of the exports, one subfolder per study.

    Returns:
        A sentence that says what was exported and what is missing; None if there is nothing to
            export.

    Raises:
        UserError: if the study's data are restricted, a file is damaged, or the subfolder is not an
            export.
    """
    source = results / name
    target = folder / name
    if _is_restricted(name, studies):
        raise UserError(
            f"{name} uses restricted data, so its results are not exported. Name the other studies"
            " with --study."
        )
    if target.exists() and not (target / STUDY).is_file():
        raise UserError(f"{target} exists and is not an exported study; choose another folder.")
    study = studies[name]
    planned = planned_blocks(name, study) if isinstance(study, TrainedStudy) else {}
    store = RunStore(results / "runs")
    missing = {
        place: _missing_or_outdated(source, place, job, store) for place, job in planned.items()
    }
    places = [place for place in planned if not missing[place]]
    further = _further(source, places)
    files = [*(file for place in places for file in block_files(place)), *further]
    if not files:
        return None
    require_intact(results, [source / file for file in files])
    evidence = read_results(name, source, places, further)
    blocks = evidence.blocks(source, RECREATE)
    description = evidence.description
    description.missing = {place: reason for place, reason in missing.items() if reason}
    for place, data in {data.place: data for data in _inputs(name, studies)}.items():
        if (path := data.record(results)).is_file():
            description.user_files[place] = read_json(path, UserFilesRecord)
    pilots = [place for place, job in planned.items() if job.is_pilot]
    is_complete = not any(missing[place] for place in pilots)
    if isinstance(study, TrainedStudy) and pilots and is_complete:
        winners, _ = select_from(_rows(blocks, pilots), selecting(study))
        description.tuning = Decision.of(winners)
    if protocol := committed_protocol(name, getattr(study, "protocol", None), results):
        description.protocol = Protocol.model_validate(protocol)
    write_evidence(evidence, target)
    return _exported(name, target, blocks, description.missing)


def _exported(
    name: str, target: Path, blocks: Sequence[EvidenceBlock], missing: Mapping[str, str]
) -> str:
    """Return a sentence that says what was exported."""
    sizes = [path.stat().st_size for path in target.iterdir()]
    runs = {identifier for block in blocks for identifier in block.checksums}
    thinned = [block for block in blocks if block.curves.groupby("run").size().max() > EPOCHS]
    note = (
        f"; training curves of {counted(len(thinned), 'block')} thinned to {EPOCHS} epochs"
        if thinned
        else ""
    )
    return (
        f"{name}: exported {counted(len(runs), 'run')} in {len(sizes)} files to {target}"
        f" ({sum(sizes) / 1e6:.1f} MB){note}{_missing(missing)}."
    )


def _missing_or_outdated(source: Path, place: str, job: Job, store: RunStore) -> str:
    """Return why a block is not exported; empty if its files are complete and up to date."""
    if reason := absent(source, place):
        return reason
    records = read_json(source / block_files(place)[-1], list[EvaluatedRun])
    recorded = {record["seed"]: record["settings"] for record in records}
    requested = [{run.seed: run.settings for run in choice.runs} for choice in job.choices.values()]
    if not any(
        settings.keys() == recorded.keys()
        and not any(different_settings(recorded[seed], settings[seed]) for seed in recorded)
        for settings in requested
    ):
        return "trained with other settings"
    for record in records:
        if store.state(record["id"]) in RunStore.TRAINED:
            # raises an error if the model is damaged: its rows may be wrong, too
            store.checksum(record["id"])
            if store.record(record["id"])["finished"] != record["finished"]:
                return "trained again since its evaluation"
    return ""


def _further(folder: Path, places: Iterable[str]) -> list[str]:
    """List the files of a study, other than those of blocks, that cannot be remade without data or
    weights.
    """
    subsets = {
        f"subsets/{dataset}/{seeds}.parquet"
        for dataset, _, seeds in (place.split("/") for place in places)
    }
    files = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.parquet"))]
    return [file for file in files if file in subsets or table_of(file) == "artefacts"]


def _rows(blocks: Iterable[EvidenceBlock], places: Iterable[str]) -> DataFrame:
    rows = {block.place: block.rows for block in blocks}
    return pd.concat([rows[place] for place in places], ignore_index=True)


def _missing(reasons: Mapping[str, str]) -> str:
    named = [f"{place} ({reason})" for place, reason in reasons.items()]
    return f"; missing: {listed(named)}" if named else ""


def import_study(folder: Path, results: Path, stamp: int | None = None) -> str:
    """Add an exported study to the results; nothing is written unless all of its files are intact.

    Runs that are already in the store are kept, and so are the files of their blocks. All files get
    the same modification time, because Snakemake makes a file again if an input is newer.

    Args:
        folder: the study's subfolder of the exports.
        results: the results folder.
        stamp: modification time of all files, in nanoseconds; None: now. Studies that use each
            other's files need the same one.

    Returns:
        A sentence that says what was imported.

    Raises:
        UserError: if a file is missing, damaged or foreign, a run's id does not follow from its
            settings and data, or the winners do not follow from the pilot seeds' rows.
    """
    name = folder.name
    store = RunStore(results / "runs")
    evidence = read_evidence(folder)
    description = evidence.description
    if name in RESERVED_NAMES or description.study != name:
        raise UserError(
            f"{folder} contains the study {description.study}; expected a folder named after its"
            f" study, whose name is none of {', '.join(RESERVED_NAMES)}."
        )
    blocks = evidence.blocks(folder)
    for block in blocks:
        _refuse_foreign(block, evidence, folder)
    content = evidence.files() | _decided(evidence, blocks, folder)
    if description.protocol is not None:
        content[PROTOCOL] = _json(description.protocol.model_dump())
    files = {results / name / file: data for file, data in content.items()}
    added = {
        record["id"]: _import_run(record, block, store)
        for block in blocks
        for record in block.records
    }
    of_blocks = [[results / name / file for file in block.files] for block in blocks]
    # If nothing was trained here, all files are replaced together, so that none is older than its
    # inputs.
    replaced = [
        paths
        for block, paths in zip(blocks, of_blocks, strict=True)
        if all(added[run] for run in block.checksums)
    ]
    if all(added.values()):
        replaced = [[*files]]
    stamp = stamp or time.time_ns()
    for paths in replaced:
        if not all(path.is_file() and path.read_bytes() == files[path] for path in paths):
            _write({path: files[path] for path in paths}, stamp, results)
    in_blocks = {path for paths in of_blocks for path in paths}
    others = {path: data for path, data in files.items() if path not in in_blocks}
    for place, record in description.user_files.items():
        others[results / f"{place}.files.json"] = _json(record)
    _write({path: data for path, data in others.items() if not path.exists()}, stamp, results)
    kept = len(added) - sum(added.values())
    note = f"; kept {counted(kept, 'run')} already in {store.path}" if kept else ""
    return (
        f"{name}: imported"
        f" {counted(sum(added.values()), 'run')}{note}{_missing(description.missing)}."
    )


def _json(content: Mapping[str, Any]) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()


def _decided(evidence: Evidence, blocks: Iterable[EvidenceBlock], folder: Path) -> dict[str, bytes]:
    """Return the files of a tuned study's winners, computed from the pilot seeds' rows; refuse
    another decision.
    """
    if (decision := evidence.description.tuning) is None:
        return {}
    pilots = [block.place for block in blocks if block.rows["seed"].isin(decision.seeds).all()]
    try:
        rows = _rows(blocks, pilots)
        content, validation = select_from(rows, decision.model_dump())
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{folder}: the rows do not contain the candidates and pilot seeds of the tuning."
            f" {AGAIN}"
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
        raise UserError(
            f"{folder}: the winners do not follow from the pilot seeds' rows"
            f" ({'; '.join(differing[:2])}). {AGAIN}"
        )
    return {
        WINNERS: as_text(content).encode(),
        VALIDATION: parquet(pa.Table.from_pandas(validation, preserve_index=False)),
    }


def _write(files: Mapping[Path, bytes], modified: int, results: Path) -> None:
    """Write files in the results folder, all with the same modification time, and record their
    checksums.
    """
    for path, content in files.items():
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)
        os.utime(path, ns=(modified, modified))
    # jobs that read the data rewrite these
    seal(results, [path for path in files if not path.name.endswith(".files.json")])


def imported_rows(store: RunStore, identifier: str, settings: Section) -> dict[str, Any]:
    """Return the ``rows`` of an imported run that were measured with the given settings, and how
    they were ``evaluated``.

    Raises:
        UserError: if no such rows were imported, or a file of the run is damaged.
    """
    folder = store.folder(identifier)
    record = store.record(identifier, RunRecord)
    store.checksum(identifier)  # raises an error if one of its files is damaged
    for path in sorted(folder.glob(RunStore.EVALUATED)):
        evaluation = read_json(path)
        if same_evaluation(
            kind_of(record["settings"]), evaluation["evaluated"]["settings"], settings
        ):
            return evaluation | {
                "rows": [
                    {"seed": record["seed"], "run": identifier, **row} for row in evaluation["rows"]
                ]
            }
    raise UserError(
        f"{folder}: this run was imported without weights, and its rows were measured with other"
        " evaluation settings. Restore them, or remove this folder and the manifests that list it"
        " to train it again."
    )


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


def _refuse_foreign(block: EvidenceBlock, evidence: Evidence, folder: Path) -> None:
    """Check that a block belongs to the study, and that its runs' ids follow from their settings
    and data.
    """
    manifest = evidence.manifests[block.place]
    study = evidence.description.study
    names = {*block.rows["study"], manifest["study"]}
    dataset, objective, _ = block.place.split("/")
    if names != {study} or (manifest["dataset"], manifest["objective"]) != (dataset, objective):
        raise UserError(
            f"{folder} contains rows of {', '.join(sorted(names - {study})) or block.place};"
            " expected a folder named after the study whose rows it contains."
        )
    for record in block.records:
        run = Run(*(record[key] for key in ("study", "dataset", "objective", "seed", "settings")))
        expected = run_id(run, record["data"])
        if expected != record["id"]:
            raise UserError(
                f"{folder}: {block.files[-1]}: run {record['id']} has settings and data of run"
                f" {expected}; they were changed, or another version of TrueNeg exported them."
                f" {AGAIN}"
            )


def _import_run(record: Record, block: EvidenceBlock, store: RunStore) -> bool:
    """Write an exported run to the store, and return True; return False if another training of it
    is kept instead.
    """
    identifier = record["id"]
    checksum = block.checksums[record["id"]]
    training = {key: value for key, value in record.items() if key != "evaluated"} | {
        "checksum": checksum
    }
    rows = block.rows.loc[block.rows["run"] == identifier, ["split", *KEYS, "value"]].astype(object)
    evaluation = {
        "evaluated": record["evaluated"],
        "rows": rows.where(rows.notna(), None).to_dict("records"),
    }
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
            write_text(folder / RunStore.RECORD, json.dumps(training, indent=2) + "\n")
            store.forget_progress(identifier)
        seal(store.path.parent, [folder / name, folder / RunStore.CURVES, folder / RunStore.RECORD])
    return True
