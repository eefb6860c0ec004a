"""Report the provenance of a result (study, settings, runs, code, data, machine, time) and whether
it is up to date.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import ValidationError

from trueneg.data.user_files import DataChanges
from trueneg.errors import UserError
from trueneg.io import seals
from trueneg.report import registry
from trueneg.specs.kinds import kind_of
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.stages import VERSIONS
from trueneg.store import blocks, records, versions
from trueneg.store.identity import identity
from trueneg.store.language_models import language_models
from trueneg.store.run_store import RunStore, fault_of_listed

# artefacts that show only the first seed of an objective
PICTURES = {"embedding", "similarities", "overlays"}
LISTED_RUNS = 12  # further runs are only counted


def provenance_of(result: str, results: Path) -> dict[str, Any]:
    """Return the provenance of a result as plain values.

    Args:
        result: a run's id, or a file under the results folder (rows, an artefact, a figure, a
            table, a manifest). A CSV table followed by a colon and a line number (the header is
            line 1) restricts the runs to those behind that line.
        results: the results folder.

    Returns:
        ===============  ===========================================================================
        key              meaning
        ===============  ===========================================================================
        result, written  the result and when it was written
        study, title     the study that requested it; for a run, the first such study, without a
            title
        differing        settings that differ from the defaults, by dotted name
        settings         all settings
        runs             records of the runs behind it; ``state`` starts with ``finished`` or
            ``stale``
        language models  records of the models that provided class probabilities
        stale            sentences that describe what is out of date
        comparison       headroom and primary contrast; only for results of a study that trains
        time             ``seconds`` and ``gpu_seconds`` of all ``attempts`` of these runs and
            language models
        ===============  ===========================================================================

    Raises:
        UserError: if the result does not exist.
    """
    store = RunStore(results / "runs")
    data = DataChanges(results)
    place = _place(result, results, store)
    of_run = place.parts[0] == "runs" and place.parts[1:]
    origin = _of_run(place.parts[1], store) if of_run else _of_file(result, place, results, data)
    marked = [_marked(run, store, data) for run in origin.runs]
    models = language_models(results, origin.reports) if origin.reports else []
    states = [record["state"].removesuffix(", imported") for record in (*marked, *models)]
    reasons = Counter(
        state.removeprefix("stale: ") for state in states if state.startswith("stale")
    )
    trained = [record for record in (*marked, *models) if "seconds" in record]
    spent = {
        key: round(sum(record.get(key, 0) for record in trained), 1)
        for key in ("seconds", "gpu_seconds")
    }
    return {
        "result": result,
        **origin.about,
        "stale": origin.stale + [f"{count} of the runs: {why}" for why, count in reasons.items()],
        "time": spent
        | {"attempts": sum(len(record["attempts"]) for record in trained), "runs": len(trained)},
        "settings": origin.settings,
        "runs": marked,
        "language models": models,
    }


class Place(NamedTuple):
    """Where a result is.

    Attributes:
        path: the file, or the folder of a run.
        line: the line of a table; None: all of them.
        parts: the path relative to the results folder; the study comes first.
    """

    path: Path
    line: int | None
    parts: Sequence[str]


class Origin(NamedTuple):
    """What a result comes from.

    Attributes:
        about: the study, and what is known of the result itself, as in :func:`provenance_of`.
        settings: all settings.
        runs: records of the runs behind it.
        stale: sentences that describe what is out of date, apart from the runs.
        reports: the likelihood study behind the class probabilities; None if there is none.
    """

    about: dict[str, Any]
    settings: Mapping[str, Any]
    runs: Sequence[dict[str, Any]]
    stale: list[str]
    reports: str | None


def _place(result: str, results: Path, store: RunStore) -> Place:
    """Find a run by its id, or a file, after which a line of a table may be given."""
    line = None
    if store.state(result) in RunStore.TRAINED:
        path = store.folder(result)
    else:
        numbered = None if Path(result).exists() else re.fullmatch(r"(.*\.csv):([0-9]+)", result)
        path = Path(numbered[1] if numbered else result)
        line = int(numbered[2]) if numbered else None
    if not path.exists():
        raise UserError(
            f"{result} is neither the id of a finished run nor a file. `trueneg runs` lists all"
            " runs."
        )
    if not path.resolve().is_relative_to(results.resolve()):
        raise UserError(
            f"{result} is not in {results}. Name a file in that folder, or pass the results folder"
            " as --results."
        )
    return Place(path, line, path.resolve().relative_to(results.resolve()).parts or ("",))


def _of_run(identifier: str, store: RunStore) -> Origin:
    """Tell what a run comes from."""
    run = store.record(identifier, records.RunRecord)
    fault = fault_of_listed(
        {"id": identifier, "checksum": run.get("checksum")}, "its record", store
    )
    about = {
        "study": run["study"],
        "written": run["finished"],
        "differing": _flat(identity(run["settings"])),
    }
    return Origin(about, run["settings"], [run], [fault] if fault else [], _reports([run]))


def _of_file(result: str, place: Place, results: Path, data: DataChanges) -> Origin:
    """Tell what a file comes from."""
    name = place.parts[0]
    folder = results / name / "artefacts"
    if not (folder / "study.yaml").is_file():
        raise UserError(
            f"{result} belongs to no finished study ({folder / 'study.yaml'} is missing). Finish"
            " the study first."
        )
    settings = records.read_settings(folder / "study.yaml")
    study = _valid(settings)
    written = time.localtime(place.path.stat().st_mtime)
    about = {
        "study": name,
        "title": settings["title"],
        "written": time.strftime("%Y-%m-%d %H:%M:%S %z", written),
        # If the settings are invalid in the current version, all of them.
        "differing": _flat(
            settings if study is None else study.model_dump(mode="json", exclude_defaults=True)
        ),
    }
    stale = _outdated(place, folder)
    kind = kind_of(settings)
    if kind.is_scored:
        return Origin(about, settings, [], stale + data.of_reports(name), name)
    if not issubclass(kind, TrainedStudy):
        return Origin(about, settings, [], stale, None)
    if missing := blocks.without_rows(name, study, results) if study is not None else []:
        stale.append(f"{len(missing)} blocks have no rows: {blocks.listed(missing)}; run Snakemake")
    seals.require_intact(results, [folder / "comparison.json", folder / "runs.json"])
    comparison = records.read_json(folder / "comparison.json", records.ComparisonRecord)
    stale += [
        f"the study was compared with {change}; run Snakemake to update it"
        for change in _raised("comparison", comparison)
    ]
    listed = records.read_json(folder / "runs.json", list[records.RunRecord])
    runs = _chosen(listed, place)
    return Origin(about | {"comparison": comparison}, settings, runs, stale, _reports(runs))


def _reports(runs: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the likelihood study that provided the class probabilities of runs, if any did."""
    for run in reversed(runs):
        if "language_model" in versions.training_versions(run["settings"]):
            return run["settings"]["dataset"]["text"]
    return None


def _chosen(listed: Sequence[dict[str, Any]], place: Place) -> Sequence[dict[str, Any]]:
    """Return the runs behind a file or a line of a table."""
    path, line, (_, *parts) = place
    if named := _named(path, line):
        return [record for record in listed if record["id"] in named]
    # Files that do not name their runs are in folders named after data set and objective; figures
    # and tables use all runs.
    names = {part.removesuffix(path.suffix) for part in parts}
    behind = [record for record in listed if {record["dataset"], record["objective"]} <= names]
    return (behind[:1] if PICTURES.intersection(parts) else behind) or listed


def _named(path: Path, line: int | None) -> set[str]:
    """Return the run ids named in a file or a line of a table."""
    if path.suffix == ".parquet":
        return set(records.read_rows(path).get("run", ()))
    if path.suffix == ".json":
        content = records.read_json(path)
        return {
            run["id"]
            for run in (content.get("runs", []) if isinstance(content, Mapping) else content)
        }
    if path.suffix == ".tex":
        path = path.with_suffix(".csv")  # the same table
    if path.suffix != ".csv" or not path.is_file():
        return set()
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    if line is not None and not 2 <= line <= len(table) + 1:
        raise UserError(
            f"{path}:{line}: there is no such line; expected 2 to {len(table) + 1} (line 1 is the"
            " header)."
        )
    lines = table if line is None else table.iloc[[line - 2]]
    return {
        run
        for column in ("runs", "baseline runs")
        for text in lines.get(column, ())
        for run in text.split()
    }


def _outdated(place: Place, artefacts: Path) -> list[str]:
    """Report whether a file is damaged, was made by other code than today's, or from rows that have
    changed since.
    """
    path, _, (_, *parts) = place
    problem = seals.damage(artefacts.parents[1].resolve(), path.resolve())
    sentences = [f"{path} {problem}; {seals.remedy(path)}"] if problem else []
    if path.is_file() and parts[0] in ("figures", "tables"):
        rows = artefacts / "rows.parquet"
        if registry.drawn_by_other_code(path):
            sentences.append(
                f"{path} was made with another version of trueneg.report; run Snakemake to"
                " update it"
            )
        if rows.is_file() and path.stat().st_mtime_ns < rows.stat().st_mtime_ns:
            sentences.append(f"{path} is older than {rows}; run Snakemake to draw it again")
    if path.is_file() and parts[:2] == ["artefacts", "simulation"]:
        changes = _raised(
            "simulation", {"version": records.read_rows(path).attrs.get("version", 1)}
        )
        sentences += [
            f"{path} was made with {change}; run Snakemake to update it" for change in changes
        ]
    return sentences


def _raised(step: str, recorded: Mapping[str, Any]) -> list[str]:
    """Describe whether the version of a step is higher than the recorded one."""
    return versions.raised({step: recorded.get("version", 1)}, {step: VERSIONS[step]})


def _marked(record: Mapping[str, Any], store: RunStore, data: DataChanges) -> dict[str, Any]:
    """Add the current state to a run's record."""
    reasons = [data.of_run(record)]
    identifier = record["id"]
    reasons += [f"trained with {change}" for change in versions.stale_training(record)]
    reasons += [f"evaluated with {change}" for change in versions.stale_rows(record)]
    if (
        store.state(identifier) == "finished"
        and store.record(identifier)["finished"] != record["finished"]
    ):
        reasons.append("trained again since it was evaluated")
    stale = ", ".join(filter(None, reasons))
    state = store.marked(identifier, f"stale: {stale}" if stale else "finished")
    return {"state": state, **record}


def _valid(settings: Mapping[str, Any]) -> Any:
    """Return the study with these settings; None if they are invalid in the current version."""
    try:
        return kind_of(settings).model_validate(settings)
    except ValidationError:
        return None


def _flat(settings: Mapping[str, Any]) -> dict[Any, Any]:
    """Flatten settings to dotted names.

    Example:
        >>> _flat({"training": {"epochs": 2}, "seeds": 8})
        {'seeds': 8, 'training.epochs': 2}
    """
    return pd.json_normalize(dict(settings)).to_dict("records")[0]


def as_text(origin: Mapping[str, Any]) -> str:
    """Format the provenance of a result for a terminal.

    Args:
        origin: result of :func:`provenance_of`.
    """
    runs = origin["runs"]
    models = origin["language models"]
    spent = origin["time"]
    comparison = origin.get("comparison")
    trained = [*runs, *(model for model in models if "versions" in model)]

    def code(record: Mapping[str, Any]) -> str:
        return (
            f"{versions.summary(record['code']['versions'])}, commit"
            f" {record['commit'] or 'unknown'}"
        )

    took = (
        f"{spent['seconds']:,.1f} s of training, {spent['gpu_seconds']:,.1f} GPU seconds,"
        f" {spent['attempts']} attempts"
    )
    answers = (
        [
            *(f"{entry['dataset']}: {entry['sentence']}" for entry in comparison["headroom"]),
            comparison["primary"]["answer"],
        ]
        if comparison
        else []
    )
    entries: dict[str, Iterable[str]] = {
        "study": [": ".join(filter(None, (origin["study"], origin.get("title"))))],
        "written": [origin["written"]],
        "state": origin["stale"] or ["up to date with the code and the runs in the store"],
        "data set": (run["dataset"] for run in runs),
        "objective": (run["objective"] for run in runs),
        "seeds": [", ".join(map(str, sorted({run["seed"] for run in runs})))] if runs else [],
        "data": (f"{run['source']['name']}, checksum {run['data']}" for run in runs),
        "code": map(code, trained),
        "host": (f"{model['machine']['host']} ({model['machine']['system']})" for model in trained),
        "CPU": (model["machine"].get("cpu", "unknown") for model in trained),
        "device": (
            f"{model.get('devices', 1)} × {model['device']}, {model.get('threads', 1)} threads"
            for model in trained
        ),
        "libraries": (
            ", ".join(f"{name} {version}" for name, version in model["versions"].items())
            for model in trained
        ),
        "evaluated": (code(run["evaluated"]) for run in runs if "evaluated" in run),
        "time": [took] if trained else [],
        "answer": answers,
        "settings that differ from the defaults": (
            f"{name}: {value}" for name, value in origin["differing"].items()
        ),
        "models": (
            f"{model['name']} on {model['corpus']}: {model.get('id', model['folder'])}"
            f" ({model['state']})"
            for model in models
        ),
        "runs": (
            f"{run['id']}  {run['dataset']}, {run['objective']}, seed {run['seed']}:"
            f" {run['seconds']:,.1f} s ({run['state']})"
            for run in runs[:LISTED_RUNS]
        ),
    }
    lines = [origin["result"]]
    for name, values in entries.items():
        counts = Counter(values)
        shown = [
            value if count == 1 or len(counts) == 1 else f"{count} × {value}"
            for value, count in counts.items()
        ]
        if len(shown) == 1 and len(name) <= 9:
            lines.append(f"  {name:<10} {shown[0]}")
        elif shown:
            lines += [f"  {name}", *(f"    {value}" for value in shown)]
    if len(runs) > LISTED_RUNS:
        lines.append(f"    and {len(runs) - LISTED_RUNS} more; --json lists all runs and settings")
    return "\n".join(lines)
