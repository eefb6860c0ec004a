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
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.trained_study import TrainedStudy
from trueneg.errors import UserError
from trueneg.io.files import written_whole
from trueneg.report.answers import answer, verdict
from trueneg.report.labels import variant_name
from trueneg.specs.tasks import CHANCE
from trueneg.stats.comparison import gate, primary_contrast, select, selected
from trueneg.stats.measurement import KEYS, Measurement
from trueneg.store.records import RUN, read_json, read_rows
from trueneg.store.rows import load_rows, typed


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
    rows = pd.concat(map(load_rows, inputs.rows), ignore_index=True)
    curves = pd.concat(map(read_rows, inputs.curves), ignore_index=True)
    records = [record for path in inputs.runs for record in read_json(path, [RUN])]
    try:
        selection = _selection(study, rows)
        comparison = {"name": name, "selection": selection.to_dict("records"), **_comparison(study, rows, selection)}
    except ValueError as error:
        raise UserError(f"primary: {error}") from error
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

    Columns: dataset, objective, the key columns of our measurement, value; of image–text studies also the printed standard error.
    """
    find = _published_accuracies if isinstance(study, ImageStudy) else _published_measurements
    return typed(pd.DataFrame(find(study, path), columns=["dataset", "objective", *KEYS, "value", "standard_error"]))


def _published_accuracies(study: ImageStudy, path: str | Path) -> list[dict[str, Any]]:
    wanted, measured = study.published, study.primary.measurement._replace(group=None)
    if wanted is None:
        return []
    chosen = _printed(path, wanted.paper, wanted.table, wanted.task, "accuracy_percent")
    rows = []
    for dataset, setting in wanted.settings.items():
        for objective, method in wanted.methods.items():
            printed = _entry(chosen, path, wanted, setting, method)
            rows.append({"dataset": dataset, "objective": objective, **measured._asdict(), "value": printed["value"] / 100})
    return rows


def _published_measurements(study: ImageTextStudy, path: str | Path) -> list[dict[str, Any]]:
    label = study.primary.dataset or next(iter(study_runs.datasets(study)))
    rows = []
    for wanted in study.published:
        chosen = _printed(path, wanted.paper, wanted.table, wanted.task, wanted.metric)
        share = 100 if wanted.percent else 1
        for objective, method in wanted.methods.items():
            printed = _entry(chosen, path, wanted, wanted.setting, method)
            values = {key: printed[key] / share for key in ("value", "standard_error")}
            rows.append({"dataset": label, "objective": objective, **wanted.measured.measurement._asdict(), **values})
    return rows


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
    candidates = {objective: list(variants.values()) for objective, variants in study_runs.candidates(study).items()}
    return select(rows, candidates, study.primary.measurement)


def _comparison(study: TrainedStudy, rows: pd.DataFrame, selection: pd.DataFrame) -> dict[str, Any]:
    """Gate and primary contrast on the test split; a swept objective stands for its selected variant."""
    primary, measured, gates = study.primary, study.primary.measurement, []
    dataset, rows = primary.dataset or next(iter(study_runs.datasets(study))), selected(rows, selection)
    variants = selection.set_index(["dataset", "objective"])["variant"]
    for label in study_runs.datasets(study):
        of_dataset = rows[rows["dataset"] == label]
        found = gate(of_dataset, primary.baseline, primary.oracle, _chance(study, of_dataset), measured)
        names = (name and variant_name(name, variants[label, name]) for name in (primary.baseline, primary.oracle))
        gates.append(found.assign(verdict=verdict(found.iloc[0], measured.metric, *names)))
    gates = pd.concat(gates, ignore_index=True)
    contrast = primary_contrast(
        rows, primary.treatment, primary.baseline, measured, dataset, expected=primary.published, gate=gates
    )
    names = (variant_name(name, variants[dataset, name]) for name in (primary.treatment, primary.baseline))
    contrast["answer"] = answer(contrast, *names, primary.published)
    return {
        "seeds": len(study.seed_list),
        "gate": json.loads(gates.to_json(orient="records")),
        "primary": json.loads(contrast.to_json()),
    }


def _chance(study: TrainedStudy, rows: pd.DataFrame) -> float:
    """What the primary measurement would be without learning."""
    measured = study.primary.measurement
    if (measured.task, measured.metric) in CHANCE:
        return CHANCE[measured.task, measured.metric]
    chance = Measurement(measured.task, "chance") if isinstance(study, ImageStudy) else measured._replace(metric="chance")
    # Splits that seeds draw differ a little in how many items they hold.
    return float(chance.rows_of(rows[rows["split"] == "test"])["value"].mean())
