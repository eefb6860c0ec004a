"""The winners of a tuned study: one configuration of each tuned objective per data set, selected on
pilot seeds.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pandas import DataFrame
from pydantic import BaseModel, ConfigDict

from trueneg.config.runs import canonical, families
from trueneg.errors import UserError
from trueneg.io.reading import RUN_STEP, reading
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sections import Section
from trueneg.stats.candidates import CANDIDATE, select
from trueneg.stats.measurement import Measurement

WINNERS = "tuning/winners.json"  # below results/<study>
VALIDATION = "artefacts/tuning.parquet"


class Decision(BaseModel):
    """The decision of a tuned study: what determines it, except the pilot seeds' rows, and the
    winners.

    Attributes:
        rule: name of the selection rule.
        measured: measurement used for the selection.
        seeds: the pilot seeds.
        candidates: variants to choose from, by objective.
        winners: the chosen variants, by data set and objective.
    """

    model_config = ConfigDict(extra="forbid")

    rule: str
    measured: dict[str, Any]
    seeds: list[int]
    candidates: dict[str, list[str]]
    winners: dict[str, dict[str, dict[str, Any]]]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Decision":
        """Return the decision in the content of a winners file."""
        candidates = dict[str, list[str]]()
        winners = dict[str, dict[str, dict[str, Any]]]()
        for dataset, of_dataset in content["winners"].items():
            winners[dataset] = {
                objective: winner["variant"] for objective, winner in of_dataset.items()
            }
            for objective, winner in of_dataset.items():
                candidates[objective] = [canonical(row["variant"]) for row in winner["candidates"]]
        return cls(
            candidates=candidates,
            winners=winners,
            **{key: content[key] for key in ("rule", "measured", "seeds")},
        )

    def lines(self) -> list[str]:
        """Return one line per winner."""
        return [
            f"{objective} on {dataset}: {canonical(variant)}"
            for dataset, winners in self.winners.items()
            for objective, variant in winners.items()
        ]


def selecting(study: TrainedStudy) -> Section:
    """Return everything that determines a tuned study's winners except the rows of its first
    stage.
    """
    return {
        "rule": study.tuning and study.tuning.rule,
        "measured": study.selected_by._asdict(),
        "candidates": {name: list(variants.values()) for name, variants in families(study).items()},
    }


def select_from(rows: DataFrame, settings: Section) -> tuple[dict[str, Any], DataFrame]:
    """Select one candidate of each tuned objective on each data set, from the pilot seeds' rows.

    Args:
        rows: rows of the candidates.
        settings: result of :func:`selecting`.

    Returns:
        The content of the winners file, and the rows of the validation split, which determine it.

    Raises:
        UserError: if a candidate has no validation rows of the measurement.
    """
    measured = Measurement(**settings["measured"])
    try:
        table = select(rows, settings["candidates"], measured)
    except ValueError as error:
        raise UserError(f"tuning: {error}") from error
    winners: dict[str, Any] = {}
    # null for NaN
    for row in json.loads(table.to_json(orient="records", double_precision=15)):
        row["variant"] = json.loads(row["variant"])
        of_dataset = winners.setdefault(row.pop("dataset"), {})
        winner = of_dataset.setdefault(row.pop("objective"), {"candidates": []})
        if row.pop("chosen"):
            winner["variant"] = row["variant"]
        winner["candidates"].append(row)
    validation = rows[rows["split"] == "validation"]
    content = {
        "rule": settings["rule"],
        "seeds": sorted(set(validation["seed"].tolist())),
        "measured": measured._asdict(),
        "winners": winners,
    }
    return content, validation


def as_text(content: Mapping[str, Any]) -> str:
    """Return the text of a winners file; the same rows give the same text."""
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def read_winners(path: str | Path) -> tuple[Measurement, DataFrame, set[int]]:
    """Read a winners file: the measurement used for the selection, the table of
    :func:`trueneg.stats.candidates.select`, and the pilot seeds.

    Raises:
        UserError: if the file is missing or damaged.
    """
    with reading(
        path,
        "the winners of a tuned study",
        "Remove it, or correct tuning.winners.",
        missing=RUN_STEP,
    ):
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        rows = [
            row
            | {
                "dataset": dataset,
                "objective": objective,
                "variant": variant,
                "chosen": row["variant"] == winner["variant"],
            }
            for dataset, winners in content["winners"].items()
            for objective, winner in winners.items()
            for row in winner["candidates"]
            for variant in (canonical(row["variant"]),)
        ]
        numbers = dict.fromkeys(("mean", "standard deviation", "low", "high"), "float64")
        table = DataFrame(rows, columns=CANDIDATE).astype(numbers)
        return Measurement.of(content["measured"]), table, {int(seed) for seed in content["seeds"]}


def chosen(undecided: Mapping[str, Any], path: str | Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the variant, as written in the rows, and the runs that the winners select for a job.

    Args:
        undecided: the job in the format of :meth:`trueneg.config.runs.Job.to_json`.
        path: the file with the winners.

    Raises:
        UserError: if the file has no winner for the job, or one that the study cannot train, or if
            the winner was selected on a seed of the job.
    """
    dataset = undecided["dataset"]
    family = undecided["family"]
    choices = undecided["choices"]
    _, table, pilots = read_winners(path)
    candidates = table[(table["dataset"] == dataset) & (table["objective"] == family)]
    won = candidates.loc[candidates["chosen"], "variant"].tolist()
    if not won:
        raise UserError(
            f"{path} has no winner of {family} on {dataset}. Repeat the first stage, or correct"
            " tuning.winners."
        )
    winner = won[0]
    if winner not in choices:
        raise UserError(
            f"{path}: the winner of {family} on {dataset} is {winner}; expected one of the study's"
            f" configurations: {', '.join(choices)}. Correct tuning.winners, or the values of"
            f" objectives.{family}."
        )
    tried = candidates["variant"].tolist()
    if untried := [choice for choice in choices if choice not in tried]:
        raise UserError(
            f"{path}: the winner of {family} on {dataset} was selected without {untried[0]}, which"
            f" is among the values of objectives.{family}. Repeat the first stage, or remove them."
        )
    if shared := sorted(pilots.intersection(run["seed"] for run in choices[winner]["runs"])):
        raise UserError(
            f"{path}: the winners were selected on seed {shared[0]}, which is also compared. Change"
            " the study's seeds."
        )
    return choices[winner]["variant"], choices[winner]["runs"]
