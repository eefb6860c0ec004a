"""A study's rows gathered into one table, with the selection, the gate and the answer to its question."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from trueneg.errors import UserError
from trueneg.files import written_whole
from trueneg.study import runs as study_runs
from trueneg.study.comparison import gate, primary_contrast, select
from trueneg.study.config import Study


def summarise_study(name: str, settings: Mapping[str, Any], inputs: Any, outputs: Any) -> None:
    """Gather the blocks of a study and compare its objectives.

    Args:
        name: the study's name.
        settings: its resolved settings.
        inputs: paths ``rows``, ``curves``, ``runs``: one file a block each.
        outputs: paths to write: ``rows``, ``curves`` (parquet), ``runs`` (JSON), ``selection`` (parquet), ``comparison``
            (JSON: gate by data set, primary contrast, warnings), ``study`` (YAML, the settings).

    Raises:
        UserError: if the rows do not hold what the primary contrast needs.
    """
    study = Study.model_validate(settings)
    rows = pd.concat(map(pd.read_parquet, inputs.rows), ignore_index=True)
    curves = pd.concat(map(pd.read_parquet, inputs.curves), ignore_index=True)
    records = [record for path in inputs.runs for record in json.loads(Path(path).read_text())]
    selection = _selection(study, rows)
    comparison = {"name": name, "selection": selection.to_dict("records"), **_comparison(study, rows, selection)}
    for table, path in ((rows, outputs.rows), (curves, outputs.curves), (selection, outputs.selection)):
        with written_whole(path) as temporary:
            table.to_parquet(temporary, index=False)
    for text, path in (
        (json.dumps(records, indent=1), outputs.runs),
        (json.dumps(comparison, indent=1), outputs.comparison),
        (yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True), outputs.study),
    ):
        with written_whole(path) as temporary:
            temporary.write_text(text + "\n")


def _selection(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """The variant of each objective that the validation split chose, in every data set."""
    primary = study.primary
    return select(rows, study_runs.candidates(study), primary.task, primary.setting, primary.metric)


def _comparison(study: Study, rows: pd.DataFrame, selection: pd.DataFrame) -> dict[str, Any]:
    """Gate and primary contrast on the test split; a swept objective stands for its selected variant."""
    primary = study.primary
    dataset = primary.dataset or next(iter(study_runs.datasets(study)))
    chosen = selection.set_index(["dataset", "objective"])["chosen"]
    measured = {"task": primary.task, "setting": primary.setting, "metric": primary.metric}
    gates = []
    try:
        for label in study_runs.datasets(study):
            names = {role: chosen.get((label, wanted), wanted) for role, wanted in _roles(study).items()}
            of_dataset = rows[rows["dataset"] == label]
            chance = float(of_dataset.loc[of_dataset["task"] == "chance", "value"].iloc[0])
            gates.append(gate(of_dataset, names["baseline"], names["oracle"], chance, **measured))
        gates = pd.concat(gates, ignore_index=True)
        names = {role: chosen.get((dataset, wanted), wanted) for role, wanted in _roles(study).items()}
        answer = primary_contrast(
            rows,
            names["treatment"],
            names["baseline"],
            dataset=dataset,
            expected=primary.published,
            gate=gates,
            **measured,
        )
    except ValueError as error:
        raise UserError(f"primary: {error}") from error
    return {
        "seeds": len(study.seed_list),
        "gate": json.loads(gates.to_json(orient="records")),
        "primary": json.loads(answer.to_json()),
    }


def _roles(study: Study) -> dict[str, str]:
    return {role: getattr(study.primary, role) for role in ("treatment", "baseline", "oracle")}
