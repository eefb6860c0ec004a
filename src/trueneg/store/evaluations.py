"""The rows of a run, which stay in its folder, and what is gathered from them for a block of seeds.

A file ``evaluated-<digest>.json`` beside a run's record contains the ``rows`` that were measured
with one study's evaluation settings, without the columns that name the run, and how they were
``evaluated``: settings, code and machine. The digest stands for these settings. The studies that
use the run give it names of their own.
"""

import json
from collections.abc import Collection, Iterable, Mapping
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
from trueneg.store.identity import evaluation_digest
from trueneg.store.records import Evaluation, Record, read_json, read_rows
from trueneg.store.rows import IDENTITY, NAMES, to_table, typed
from trueneg.store.run_store import RunStore

MEASURED = ("split", *KEYS, "value")  # columns of a run's rows


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
    measured = [{key: row[key] for key in MEASURED} for row in rows]
    path = evaluation_file(store, identifier, evaluated["settings"])
    with store.owned(identifier, patience=60):
        remove_seal(store.path.parent, path)
        write_text(path, json.dumps({"evaluated": evaluated, "rows": measured}, indent=1) + "\n")
        seal(store.path.parent, [path])


def evaluation_file(store: RunStore, identifier: str, settings: Section) -> Path:
    """Return the path of the rows of a run that are measured with the given settings."""
    kind = kind_of(store.record(identifier)["settings"])
    name = RunStore.EVALUATED.replace("*", evaluation_digest(kind, settings))
    return store.folder(identifier) / name


def evaluation(store: RunStore, identifier: str, settings: Section) -> dict[str, Any]:
    """Return the ``rows`` of a run that were measured with the given settings, and how they were
    ``evaluated``.

    Raises:
        UserError: if there are none, or they are damaged.
    """
    path = evaluation_file(store, identifier, settings)
    if not path.is_file() and store.state(identifier) == "imported":
        raise UserError(
            f"{path.parent}: this run was imported without weights, and its rows were measured with"
            " other evaluation settings. Restore them, or remove this folder and the manifests that"
            " list it to train it again."
        )
    store.require_intact(identifier, path)
    content: dict[str, Any] = read_json(path, Evaluation, store.remedy(identifier, path))
    return content


def listed_for(manifest: Record) -> dict[str, str]:
    """Return the study, dataset, objective and, if a winner decided it, variant of a manifest."""
    return {key: manifest[key] for key in NAMES if key in manifest}


def gather_block(
    store: RunStore,
    manifest: Record,
    names: Mapping[str, str],
    settings: Section,
    without_curve: Collection[str] = (),
) -> BlockTables:
    """Gather the rows, curves and records of the runs in a manifest from their folders.

    Args:
        store: the run store.
        manifest: the manifest; the study and the objective that the runs are listed for.
        names: columns that identify the rows; a run may have been trained under other names.
        settings: the study's evaluation settings.
        without_curve: ids of runs whose curves are left out.

    Raises:
        UserError: if a run has no rows with these settings, or a file is damaged.
    """
    rows = []
    curves = [typed(DataFrame(columns=[*IDENTITY, "epoch"]))]
    runs = []
    for run in manifest["runs"]:
        identifier = run["id"]
        identity = {**names, "seed": run["seed"], "run": identifier}
        # another job may be measuring them again
        with store.owned(identifier, patience=60) as folder:
            found = evaluation(store, identifier, settings)
            record = store.record(identifier)
            path = folder / RunStore.CURVES
            # pilots are exported without curves
            is_left_out = store.state(identifier) == "imported" and not path.is_file()
            if identifier not in without_curve and not is_left_out:
                store.require_intact(identifier, path)
                curve = read_rows(path, remedy=store.remedy(identifier, path))
                curves.append(curve.assign(**identity))
        rows += [row | identity for row in found["rows"]]
        own = {key: value for key, value in record.items() if key != "variant"}
        runs.append(own | listed_for(manifest) | {"evaluated": found["evaluated"]})
    gathered = pd.concat(curves[1:] or curves, ignore_index=True)
    return BlockTables(to_table(rows), gathered, runs)
