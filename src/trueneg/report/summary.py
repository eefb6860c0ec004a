"""A study's rows gathered into one table, with the selection, the gate and the answer to its question."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from trueneg.config import runs as study_runs
from trueneg.config.configuration import KINDS
from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import CHANCE, CHEXPERT_8X200, ImageTextStudy
from trueneg.config.trained_study import TrainedStudy
from trueneg.errors import UserError
from trueneg.io.files import written_whole
from trueneg.stats.comparison import gate, primary_contrast, select
from trueneg.store.records import RUN, read_json, read_rows


def summarise_study(name: str, settings: Mapping[str, Any], inputs: Any, outputs: Any) -> None:
    """Gather the blocks of a study and compare its objectives.

    Args:
        name: the study's name.
        settings: its resolved settings.
        inputs: paths ``rows``, ``curves``, ``runs``: one file a block each; ``published``: the printed numbers (CSV)
            where the study has some to stand beside, else none.
        outputs: paths to write: ``rows``, ``curves`` (parquet), ``runs`` (JSON), ``selection``, ``published``
            (parquet), ``comparison`` (JSON: gate by data set, primary contrast, warnings), ``study`` (YAML, the settings).

    Raises:
        UserError: if the rows do not hold what the primary contrast needs.
    """
    study = KINDS[settings.get("kind", "images")].model_validate(settings)
    rows = pd.concat(map(read_rows, inputs.rows), ignore_index=True)
    curves = pd.concat(map(read_rows, inputs.curves), ignore_index=True)
    records = [record for path in inputs.runs for record in read_json(path, [RUN])]
    selection = _selection(study, rows)
    comparison = {"name": name, "selection": selection.to_dict("records"), **_comparison(study, rows, selection)}
    tables = {
        outputs.rows: rows,
        outputs.curves: curves,
        outputs.selection: selection,
        outputs.published: _published(study, inputs.published),
    }
    for path, table in tables.items():
        with written_whole(path) as temporary:
            table.to_parquet(temporary, index=False)
    for text, path in (
        (json.dumps(records, indent=1), outputs.runs),
        (json.dumps(comparison, indent=1), outputs.comparison),
    ):
        with written_whole(path) as temporary:
            temporary.write_text(text + "\n")
    write_settings(settings, outputs.study)


def write_settings(settings: Mapping[str, Any], path: str | Path) -> None:
    """Write down a study's resolved settings.

    Args:
        settings: plain values.
        path: YAML file to write.
    """
    with written_whole(path) as temporary:
        temporary.write_text(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True))


def _published(study: TrainedStudy, path: str | Path) -> pd.DataFrame:
    """The printed numbers beside ours, in the units of our rows; empty where the study names none.

    Columns: dataset, objective, value; of image–text studies also task, setting and metric of our measurement, and the printed
    standard error.
    """
    return _published_accuracies(study, path) if isinstance(study, ImageStudy) else _published_measurements(study, path)


def _published_accuracies(study: ImageStudy, path: str | Path) -> pd.DataFrame:
    wanted = study.published
    if wanted is None:
        return pd.DataFrame({"dataset": [], "objective": [], "value": []})
    chosen = _printed(path, wanted.paper, wanted.table, wanted.task, "accuracy_percent")
    rows = []
    for dataset, setting in wanted.settings.items():
        for objective, method in wanted.methods.items():
            printed = _entry(chosen, path, wanted, setting, method)
            rows.append({"dataset": dataset, "objective": objective, "value": printed["value"] / 100})
    return pd.DataFrame(rows)


def _published_measurements(study: ImageTextStudy, path: str | Path) -> pd.DataFrame:
    label = study.primary.dataset or next(iter(study_runs.datasets(study)))
    columns = ["dataset", "objective", "task", "setting", "metric", "value", "standard_error"]
    rows = []
    for wanted in study.published:
        chosen = _printed(path, wanted.paper, wanted.table, wanted.task, wanted.metric)
        share = 100 if wanted.percent else 1
        for objective, method in wanted.methods.items():
            printed = _entry(chosen, path, wanted, wanted.setting, method)
            values = {key: printed[key] / share for key in ("value", "standard_error")}
            rows.append({"dataset": label, "objective": objective, **wanted.measured.model_dump(), **values})
    return pd.DataFrame(rows, columns=columns)


def _printed(path: str | Path, paper: str, table: str, task: str, metric: str) -> pd.DataFrame:
    printed = pd.read_csv(path, keep_default_na=False, na_values={"standard_error": "", "value": ""})
    wanted = {"paper": paper, "table": table, "task": task, "metric": metric}
    for column, value in wanted.items():
        printed = printed[printed[column] == value]
    return printed.set_index(["setting", "method"])


def _entry(chosen: pd.DataFrame, path: str | Path, wanted: Any, setting: str, method: str) -> pd.Series:
    if (setting, method) not in chosen.index:
        raise UserError(
            f"{path}: {wanted.paper}, {wanted.table}, {wanted.task} has no {method!r} at {setting!r}; mend the study's "
            "published section."
        )
    return chosen.loc[(setting, method)]


def _selection(study: TrainedStudy, rows: pd.DataFrame) -> pd.DataFrame:
    """The variant of each objective that the validation split chose, in every data set."""
    primary = study.primary
    return select(rows, study_runs.candidates(study), primary.task, primary.setting, primary.metric)


def _comparison(study: TrainedStudy, rows: pd.DataFrame, selection: pd.DataFrame) -> dict[str, Any]:
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
            gates.append(gate(of_dataset, names["baseline"], names.get("oracle"), _chance(study, of_dataset), **measured))
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


def _chance(study: TrainedStudy, rows: pd.DataFrame) -> float:
    """What the primary measurement would be without learning."""
    primary, rows = study.primary, rows[rows["task"] == "chance"]
    if isinstance(study, ImageTextStudy):
        if primary.metric.split(" ")[0] in CHANCE:
            return CHANCE[primary.metric.split(" ")[0]]
        if primary.task == "chexpert 8x200":
            return CHEXPERT_8X200
        measured = rows["setting"].eq(f"{primary.task}, {primary.setting}") & rows["metric"].eq(primary.metric)
        # Splits that seeds draw differ a little in how many items they hold.
        return float(rows.loc[measured & rows["split"].eq("test"), "value"].mean())
    return float(rows["value"].iloc[0])


def _roles(study: TrainedStudy) -> dict[str, str]:
    """The objectives of the primary contrast by role; without an oracle where the study names none."""
    given = {role: getattr(study.primary, role) for role in ("treatment", "baseline", "oracle")}
    return {role: name for role, name in given.items() if name is not None}
