"""The winners of a tuned study: one configuration of each tuned objective per data set, selected on pilot seeds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.config.runs import canonical
from trueneg.errors import UserError
from trueneg.stats.candidates import CANDIDATE
from trueneg.stats.measurement import Measurement
from trueneg.store.records import Winners, read_json

WINNERS = "tuning/winners.json"  # below results/<study>


def as_json(candidates: pd.DataFrame, rule: str, measured: Measurement, seeds: Sequence[int]) -> dict[str, Any]:
    """Return the content of a winners file.

    Args:
        candidates: result of :func:`trueneg.stats.candidates.describe_candidates`.
        rule: name of the selection rule.
        measured: measurement used for the selection.
        seeds: the pilot seeds.
    """
    winners: dict[str, Any] = {}
    for row in json.loads(candidates.to_json(orient="records", double_precision=15)):  # null for NaN
        row["variant"] = json.loads(row["variant"])
        of_dataset = winners.setdefault(row.pop("dataset"), {})
        winner = of_dataset.setdefault(row.pop("objective"), {"candidates": []})
        if row.pop("chosen"):
            winner["variant"] = row["variant"]
        winner["candidates"].append(row)
    return {"rule": rule, "seeds": list(seeds), "measured": measured._asdict(), "winners": winners}


def read_winners(path: str | Path) -> tuple[Measurement, pd.DataFrame]:
    """Read a winners file: the measurement used for the selection, and the table that was passed to :func:`as_json`.

    Raises:
        UserError: if the file is missing or damaged.
    """
    content = read_json(path, Winners, "Remove it, or correct tuning.winners.")
    rows = [
        row | {"dataset": dataset, "objective": objective, "variant": variant, "chosen": row["variant"] == winner["variant"]}
        for dataset, winners in content["winners"].items()
        for objective, winner in winners.items()
        for row in winner["candidates"]
        for variant in (canonical(row["variant"]),)
    ]
    numbers = dict.fromkeys(("mean", "standard deviation", "low", "high"), "float64")
    return Measurement.of(content["measured"]), pd.DataFrame(rows, columns=CANDIDATE).astype(numbers)


def winner_of(path: str | Path, dataset: str, family: str) -> str:
    """Return the variant of a tuned objective that won on a data set.

    Raises:
        UserError: if the file has no winner for this data set and objective.
    """
    _, table = read_winners(path)
    won = table[table["chosen"] & (table["dataset"] == dataset) & (table["objective"] == family)]
    if won.empty:
        raise UserError(f"{path} has no winner of {family} on {dataset}. Repeat the first stage, or correct tuning.winners.")
    return won["variant"].iloc[0]


def chosen(undecided: Mapping[str, Any], path: str | Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the variant, as written in the rows, and the runs that the winners select for a job.

    Args:
        undecided: the job in the format of :meth:`trueneg.config.runs.Job.to_json`.
        path: the file with the winners.

    Raises:
        UserError: if the file has no winner for the job, or one that the study cannot train, or if the winner was selected on a
            seed of the job.
    """
    dataset, family, choices = undecided["dataset"], undecided["family"], undecided["choices"]
    winner = winner_of(path, dataset, family)
    if winner not in choices:
        raise UserError(
            f"{path}: the winner of {family} on {dataset} is {winner}; expected one of the study's configurations: "
            f"{', '.join(choices)}. Correct tuning.winners, or the values of objectives.{family}."
        )
    pilots = set(read_json(path, Winners)["seeds"])
    if shared := sorted(pilots.intersection(run["seed"] for run in choices[winner]["runs"])):
        raise UserError(
            f"{path}: the winners were selected on seed {shared[0]}, which is also compared. Change the study's seeds."
        )
    return choices[winner]["variant"], choices[winner]["runs"]
