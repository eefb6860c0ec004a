"""The rows of a run, which stay in its folder, and what is gathered from them for a block of seeds.

A file ``evaluated-*.json`` beside a run's record contains the ``rows`` that were measured with one
study's evaluation settings, without the columns that name the run, and how they were ``evaluated``:
settings, code and machine. The studies that use the run give it names of their own.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pandas import DataFrame

from trueneg.errors import UserError
from trueneg.io.files import write_tables, write_text
from trueneg.io.seals import remove_seal, seal
from trueneg.specs.kinds import kind_of
from trueneg.specs.sections import Section
from trueneg.stats.measurement import KEYS
from trueneg.store.identity import same_evaluation
from trueneg.store.records import Evaluation, Record, read_json, read_rows
from trueneg.store.rows import IDENTITY, to_table, typed
from trueneg.store.run_store import RunStore

MEASURED = ("split", *KEYS, "value")  # columns of a run's rows
NAMES = ("study", "dataset", "objective", "variant")  # in a manifest


class BlockTables(NamedTuple):
    """What is gathered from the runs of a block: rows, training curves, and the records of the runs
    and their evaluations.
    """

    rows: DataFrame
    curves: DataFrame
    runs: list[dict[str, Any]]

    def write(self, rows: str | Path, curves: str | Path, runs: str | Path) -> None:
        """Write the tables as parquet files and the records as JSON."""
        write_tables({rows: self.rows, curves: self.curves})
        write_text(runs, json.dumps(self.runs, indent=2) + "\n")


def keep_evaluation(
    store: RunStore, identifier: str, evaluated: Record, rows: Iterable[Record]
) -> None:
    """Write the rows of a run to its folder; they replace earlier ones with the same settings.

    Args:
        store: the run store.
        identifier: the run's id.
        evaluated: how they were measured.
        rows: the rows; of their columns, :data:`MEASURED` are kept.
    """
    settings = json.dumps(evaluated["settings"], sort_keys=True)
    digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
    content = {
        "evaluated": evaluated,
        "rows": [{key: row[key] for key in MEASURED} for row in rows],
    }
    with store.owned(identifier, patience=60) as folder:
        path = folder / RunStore.EVALUATED.replace("*", digest)
        earlier = evaluation_file(store, identifier, evaluated["settings"])
        if earlier is not None and earlier != path:
            earlier.unlink()
            remove_seal(store.path.parent, earlier)
        write_text(path, json.dumps(content, indent=1) + "\n")
        seal(store.path.parent, [path])


def evaluation_file(store: RunStore, identifier: str, settings: Section) -> Path | None:
    """Return the file with the rows of a run that were measured with the given settings; None if
    there is none.

    Raises:
        UserError: if such a file is damaged.
    """
    kind = kind_of(store.record(identifier)["settings"])
    for path in sorted(store.folder(identifier).glob(RunStore.EVALUATED)):
        earlier = read_json(store.require_intact(identifier, path), Evaluation)["evaluated"]
        if same_evaluation(kind, earlier["settings"], settings):
            return path
    return None


def evaluation(store: RunStore, identifier: str, settings: Section) -> dict[str, Any]:
    """Return the ``rows`` of a run that were measured with the given settings, and how they were
    ``evaluated``.

    Raises:
        UserError: if there are none, or a file of the run is damaged.
    """
    path = evaluation_file(store, identifier, settings)
    if path is None:
        raise UserError(
            f"{store.folder(identifier)}: this run was imported without weights, and its rows were"
            " measured with other evaluation settings. Restore them, or remove this folder and the"
            " manifests that list it to train it again."
        )
    content: dict[str, Any] = read_json(path, Evaluation)
    return content


def listed_for(manifest: Record) -> dict[str, str]:
    """Return the study, dataset, objective and, if a winner decided it, variant of a manifest."""
    return {key: manifest[key] for key in NAMES if key in manifest}


def gather_block(
    store: RunStore, manifest: Record, names: Mapping[str, str], settings: Section
) -> BlockTables:
    """Gather the rows, curves and records of the runs in a manifest from their folders.

    Args:
        store: the run store.
        manifest: the manifest; the study and the objective that the runs are listed for.
        names: columns that identify the rows; a run may have been trained under other names.
        settings: the study's evaluation settings.

    Raises:
        UserError: if a run has no rows with these settings, or a file is damaged.
    """
    rows = []
    curves = [typed(DataFrame(columns=[*IDENTITY, "epoch"]))]
    runs = []
    for run in manifest["runs"]:
        identifier = run["id"]
        identity = {**names, "seed": run["seed"], "run": identifier}
        found = evaluation(store, identifier, settings)
        rows += [row | identity for row in found["rows"]]
        path = store.folder(identifier) / RunStore.CURVES
        # pilots are exported without curves
        if path.is_file() or store.state(identifier) != "imported":
            remedy = "Remove its folder to train the run again."
            curve = read_rows(store.require_intact(identifier, path), remedy=remedy)
            curves.append(curve.assign(**identity))
        runs.append(
            {**store.record(identifier), **listed_for(manifest), "evaluated": found["evaluated"]}
        )
    return BlockTables(to_table(rows), pd.concat(curves[1:] or curves), runs)
