"""Select the winners of a tuned study's first stage."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.errors import UserError
from trueneg.io.files import write_tables, write_text
from trueneg.stats.candidates import describe_candidates
from trueneg.stats.comparison import select
from trueneg.stats.measurement import Measurement
from trueneg.store.rows import load_rows
from trueneg.store.winners import as_json


def select_winners(
    paths: Iterable[str | Path], settings: Mapping[str, Any], *, winners: str | Path, validation: str | Path
) -> None:
    """Select one candidate of each tuned objective on each data set, from the pilot seeds' rows.

    Args:
        paths: rows of the candidates, one file per block of pilot seeds.
        settings: result of :meth:`trueneg.compute.trainings.Trainings.selecting`: ``rule``, ``measured`` and ``candidates``.
        winners: JSON file to write. The same rows give the same bytes, so rewriting it reruns nothing.
        validation: parquet file to write with the rows of the validation split; those of the test split are not gathered.

    Raises:
        UserError: if a candidate has no validation rows of the measurement.
    """
    candidates, measured = settings["candidates"], Measurement(**settings["measured"])
    rows = pd.concat(map(load_rows, paths), ignore_index=True)
    rows = rows[rows["split"] == "validation"]
    try:
        selection = select(rows, candidates, measured)
    except ValueError as error:
        raise UserError(f"tuning: {error}") from error
    described, seeds = describe_candidates(rows, candidates, measured, selection), sorted(set(rows["seed"].tolist()))
    content = as_json(described, settings["rule"], measured, seeds)
    write_tables({validation: rows})
    write_text(winners, json.dumps(content, indent=1, sort_keys=True) + "\n")
