"""The way back from a result to what made it: study, settings, runs, code, data, machine and time; and whether it still holds."""

import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import ValidationError

from trueneg.config.configuration import KINDS
from trueneg.errors import UserError
from trueneg.store import provenance, records
from trueneg.store.identity import not_default
from trueneg.store.run_store import RunStore
from trueneg.store.user_files import DataChanges

DRAWN = ("figures", "tables")  # folders of what the report's code makes
MODEL = {
    **records.ENVIRONMENT,
    "id": records.RUN_ID,
    "device": str,
    "seconds": records.NUMBER,
    "attempts": list,
}  # a language model's record
PICTURES = ("embedding", "similarities", "overlays")  # artefacts of one objective's first seed


def origin_of(result: str, results: Path) -> dict[str, Any]:
    """What made a result.

    Args:
        result: a run's id, or a file under the results folder (rows, an artefact, a figure, a table, a manifest). A colon and a
            number after a CSV table mean that line of it (the head is line 1): only the runs behind that line count then.
        results: the results folder.

    Returns:
        Plain values:

        ===============  ======================================================================================
        key              meaning
        ===============  ======================================================================================
        result, written  the result and when it was written
        study, title     the study that asked for it; of a run, the first one that did
        differing        settings that are not the defaults, by dotted name
        settings         all settings
        runs             records of the runs behind it; ``state`` is ``finished`` or begins with ``stale``
        language models  records of those that gave class probabilities
        stale            sentences: what does not hold any more
        comparison       gate and primary contrast, of a whole study that trains
        time             ``seconds`` and ``gpu_seconds`` of all ``attempts`` of these runs and language models
        ===============  ======================================================================================

    Raises:
        UserError: if there is no such result.
    """
    store = RunStore(results / "runs")
    if store.state(result) == "finished":
        return _of_run(result, store)
    path, line = _place(result)
    try:
        parts = path.resolve().relative_to(results.resolve()).parts
    except ValueError as error:
        raise UserError(f"{result}: lies outside {results}; name a file under it, or give its folder by --results.") from error
    if parts[:1] == ("runs",) and len(parts) > 1:
        return _of_run(parts[1], store)
    folder = results / (parts[0] if parts else "") / "artefacts"
    if not (folder / "study.yaml").is_file():
        raise UserError(
            f"{result}: belongs to no finished study ({folder / 'study.yaml'} is missing); let the study finish first."
        )
    settings = records.read_settings(folder / "study.yaml")
    found = {
        "result": result,
        "written": _written(path),
        "study": parts[0],
        "title": settings["title"],
        "differing": _differing(settings),
        "settings": settings,
        "runs": [],
        "language models": [],
        "stale": _outdated(path, parts, results),
    }
    if settings.get("kind") == "likelihood":
        found["language models"] = _language_models(results, parts[0])
        found["stale"] += DataChanges(results).of_reports(parts[0])
    elif settings.get("kind") != "theory":
        chosen = _chosen(records.read_json(folder / "runs.json", [records.RUN]), path, parts[1:], line)
        if settings.get("kind") == "image-text" and any(map(_uses_language_model, chosen)):
            found["language models"] = _language_models(results, settings["dataset"]["text"])
        data = DataChanges(results)
        found["runs"] = [_marked(record, store, data) for record in chosen]
        found["comparison"] = records.read_json(folder / "comparison.json", records.COMPARISON)
    return _with_totals(found)


def _place(result: str) -> tuple[Path, int | None]:
    """A file, and a line of it if one is named."""
    path, line = Path(result), None
    numbered = re.fullmatch(r"(.*\.csv):([0-9]+)", result)
    if numbered and not path.exists():
        path, line = Path(numbered[1]), int(numbered[2])
    if not path.exists():
        raise UserError(f"{result}: is neither a finished run's id nor a file; `trueneg runs` lists the runs.")
    return path, line


def _of_run(identifier: str, store: RunStore) -> dict[str, Any]:
    record = store.record(identifier, records.RUN)
    found = {
        "result": identifier,
        "written": record["finished"],
        "study": record["study"],
        "differing": _flat(not_default(record["settings"])),
        "settings": record["settings"],
        "runs": [_marked(record, store, DataChanges(store.path.parent))],
        "language models": _language_models(store.path.parent, record["settings"]["dataset"]["text"])
        if _uses_language_model(record)
        else [],
        "stale": [],
    }
    return _with_totals(found)


def _chosen(listed: Sequence[Mapping[str, Any]], path: Path, parts: Sequence[str], line: int | None) -> list[Mapping[str, Any]]:
    """The runs behind a file, or behind a line of a table."""
    named = _named(path, line)
    if named is not None:
        return [record for record in listed if record["id"] in named]
    stages = parts[1:] if parts[0] == "artefacts" else parts
    if len(stages) < 3:  # figures and tables need all runs
        return list(listed)
    # What does not name its runs lies in folders of the data set and the objective.
    place = {"dataset": stages[1], "objective": stages[2].removesuffix(".parquet")}
    if stages[0] in PICTURES:
        place["seed"] = listed[0]["seed"]
    return [record for record in listed if all(record[key] == value for key, value in place.items())]


def _named(path: Path, line: int | None) -> set[str] | None:
    """The ids of runs that a file, or a line of a table, names; None if it names none."""
    if path.suffix == ".parquet":
        table = records.read_rows(path)
        return set(table["run"]) if "run" in table else None
    if path.suffix == ".json":
        content = records.read_json(path)
        listed = content.get("runs", []) if isinstance(content, Mapping) else content
        return {run["id"] for run in listed} or None
    if line is None:
        return None
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    if not 2 <= line <= len(table) + 1:
        raise UserError(f"{path}:{line}: there is no such line; the table's lines are 2 to {len(table) + 1}, below its head.")
    row = table.iloc[line - 2]
    return {run for column in ("runs", "baseline runs") if column in table for run in row[column].split()} or None


def _outdated(path: Path, parts: Sequence[str], results: Path) -> list[str]:
    """What a file was made before: other code, other rows."""
    drawn, found = parts[1:2] and parts[1] in DRAWN, []
    again = "; run Snakemake to remake it"
    if drawn and path.is_file() and provenance.drawn_by_other_code(path):
        found.append(f"{path} was made with another version of trueneg.report{again}")
    simulated = parts[1:3] == ("artefacts", "simulation") and path.is_file()
    if simulated and provenance.recorded_code(path) != provenance.fingerprint(provenance.SIMULATION):
        found.append(f"{path} was made with another version of trueneg.theory{again}")
    rows = results / parts[0] / "artefacts" / "rows.parquet"
    if drawn and rows.is_file() and _older(path, rows):
        found.append(f"{path} is older than {rows}; Snakemake draws it again")
    return found


def _older(path: Path, than: Path) -> bool:
    return path.stat().st_mtime_ns < than.stat().st_mtime_ns


def _marked(record: Mapping[str, Any], store: RunStore, data: DataChanges) -> dict[str, Any]:
    """A run's record with its state."""
    reasons = []
    if provenance.trained_by_other_code(record):
        reasons.append("trained with other code than today's")
    if provenance.evaluated_by_other_code(record):
        reasons.append("evaluated with other code than today's")
    if store.state(record["id"]) == "finished" and store.record(record["id"])["finished"] != record["finished"]:
        reasons.append("trained again since it was evaluated")
    if changed := data.of_run(record):
        reasons.append(changed)
    return {"state": f"stale: {', '.join(reasons)}" if reasons else "finished", **record}


def _uses_language_model(record: Mapping[str, Any]) -> bool:
    objective = record["settings"]["objective"]
    return "language model" in (objective.get("class_probability"), objective.get("switched_off_by"))


def _language_models(results: Path, study: str) -> list[dict[str, Any]]:
    """Records of the language models of a likelihood study; of one that is taken as it is, its name."""
    found = []
    for manifest in sorted((results / study / "text").glob("*/language_models/*.json")):
        for model in records.read_json(manifest, records.LANGUAGE_MODELS)["models"]:
            record = results / "language_models" / Path(model["folder"]).name / RunStore.RECORD
            made = records.read_json(record, MODEL) if model["checksum"] is not None and record.is_file() else {}
            stale = made and made["fingerprint"] != provenance.fingerprint(provenance.LANGUAGE_MODELS)
            state = "stale: trained with other code than today's" if stale else "finished" if made else "taken as it is"
            found.append({"name": manifest.stem, "corpus": manifest.parts[-3], "state": state, **model, **made})
    return found


def _differing(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A study's settings that are not the defaults; all of them, if today's model of a study does not know them."""
    try:
        study = KINDS[settings.get("kind", "images")].model_validate(settings)
    except ValidationError:
        return _flat(settings)
    return _flat(study.model_dump(mode="json", exclude_defaults=True))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by dotted name.

    Example:
        >>> _flat({"training": {"epochs": 2}, "seeds": 8})
        {'training.epochs': 2, 'seeds': 8}
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _with_totals(found: dict[str, Any]) -> dict[str, Any]:
    """What all attempts of the runs took together; and the stale ones among what a result is told of."""
    made = [record for record in (*found["runs"], *found["language models"]) if "seconds" in record]
    stale = [record["state"] for record in (*found["runs"], *found["language models"]) if record["state"].startswith("stale")]
    for state in dict.fromkeys(stale):
        found["stale"].append(f"{stale.count(state)} of the runs: {state.removeprefix('stale: ')}")
    found["time"] = {
        "seconds": round(sum(record["seconds"] for record in made), 1),
        "gpu_seconds": round(sum(map(_gpu_seconds, made)), 1),
        "attempts": sum(len(record["attempts"]) for record in made),
        "runs": len(made),
    }
    return found


def _gpu_seconds(record: Mapping[str, Any]) -> float:
    """Of all attempts; older records hold only the seconds, of one device."""
    return record["gpu_seconds"] if "gpu_seconds" in record else record["seconds"] * (record["device"] != "cpu")


def _written(path: Path) -> str:
    """When a file was written, local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(path.stat().st_mtime))
