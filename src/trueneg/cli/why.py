"""Report the provenance of a result (study, settings, runs, code, data, machine, time) and whether
it is up to date.
"""

import dataclasses
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
from trueneg.specs.sections import Section
from trueneg.specs.stages import VERSIONS
from trueneg.store import blocks, records, versions
from trueneg.store.identity import identity
from trueneg.store.language_models import language_models
from trueneg.store.records import Record
from trueneg.store.run_store import RunStore, fault_of_listed

# artefacts that show only the first seed of an objective
PICTURES = {"embedding", "similarities", "overlays"}
LISTED_RUNS = 12  # further runs are only counted


@dataclasses.dataclass(kw_only=True)
class Origin:
    """What a result comes from, and whether it is up to date.

    Attributes:
        result: the result, as it was named.
        study: the study that requested it; for a run, the first such study.
        title: the study's title; None for a run.
        written: when the result was written.
        differing: settings that differ from the defaults, by dotted name.
        comparison: headroom and primary contrast; None for a run, or a study that trains nothing.
        stale: sentences that describe what is out of date.
        time: ``seconds`` and ``gpu_seconds`` of all ``attempts`` of its ``runs`` and language
            models that were trained here.
        settings: all settings.
        runs: records of the runs behind it; ``state`` starts with ``finished`` or ``stale``.
        models: records of the language models that provided class probabilities.
    """

    result: str
    study: str
    title: str | None = None
    written: str
    differing: Section
    comparison: Record | None = None
    stale: list[str]
    time: Mapping[str, float] = dataclasses.field(default_factory=dict)
    settings: Section
    runs: Sequence[Record] = ()
    models: Sequence[Record] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without those that are None."""
        plain = {key: value for key, value in vars(self).items() if value is not None}
        plain["language models"] = plain.pop("models")
        return plain


def provenance_of(result: str, results: Path) -> Origin:
    """Return the provenance of a result.

    Args:
        result: a run's id, or a file under the results folder (rows, an artefact, a figure, a
            table, a manifest). A CSV table followed by a colon and a line number (the header is
            line 1) restricts the runs to those behind that line.
        results: the results folder.

    Raises:
        UserError: if the result does not exist.
    """
    store = RunStore(results / "runs")
    data = DataChanges(results)
    place = _place(result, results, store)
    if place.parts[0] == "runs" and place.parts[1:]:
        found = _of_run(result, place.parts[1], store)
    else:
        found = _of_file(result, place, results, data)
    found.runs = [_marked(run, store, data) for run in found.runs]
    states = [record["state"].removesuffix(", imported") for record in (*found.runs, *found.models)]
    reasons = Counter(
        state.removeprefix("stale: ") for state in states if state.startswith("stale")
    )
    found.stale += [f"{count} of the runs: {why}" for why, count in reasons.items()]
    trained = [record for record in (*found.runs, *found.models) if "seconds" in record]
    found.time = {
        "seconds": round(sum(record["seconds"] for record in trained), 1),
        "gpu_seconds": round(sum(record.get("gpu_seconds", 0) for record in trained), 1),
        "attempts": sum(len(record["attempts"]) for record in trained),
        "runs": len(trained),
    }
    return found


class FoundAt(NamedTuple):
    """Where a result is.

    Attributes:
        path: the file, or the folder of a run.
        line: the line of a table; None: all of them.
        parts: the path relative to the results folder; the study comes first.
    """

    path: Path
    line: int | None
    parts: Sequence[str]


def _place(result: str, results: Path, store: RunStore) -> FoundAt:
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
            seals.fault(results, path)
            or f"{result} is neither the id of a finished run nor a file. `trueneg runs` lists all"
            " runs."
        )
    if not path.resolve().is_relative_to(results.resolve()):
        raise UserError(
            f"{result} is not in {results}. Name a file in that folder, or pass the results folder"
            " as --results."
        )
    return FoundAt(path, line, path.resolve().relative_to(results.resolve()).parts or ("",))


def _of_run(result: str, identifier: str, store: RunStore) -> Origin:
    """Tell what a run comes from."""
    run = store.record(identifier, records.RunRecord)
    listed = {"id": identifier, "checksum": run.get("checksum")}
    fault = fault_of_listed(listed, "its record", store)
    return Origin(
        result=result,
        study=run["study"],
        written=run["finished"],
        differing=_flat(identity(run["settings"])),
        stale=[fault] if fault else [],
        settings=run["settings"],
        runs=[run],
        models=_models([run], store.path.parent),
    )


def _of_file(result: str, place: FoundAt, results: Path, data: DataChanges) -> Origin:
    """Tell what a file comes from."""
    name = place.parts[0]
    folder = results / name / "artefacts"
    if not (folder / "study.yaml").is_file():
        raise UserError(
            f"{result} belongs to no finished study ({folder / 'study.yaml'} is missing). Finish"
            " the study first."
        )
    settings = records.read_settings(folder / "study.yaml")
    kind = kind_of(settings)
    study = _valid(settings)
    written = time.localtime(place.path.stat().st_mtime)
    fault = seals.fault(results, results.joinpath(*place.parts))
    found = Origin(
        result=result,
        study=name,
        title=settings["title"],
        written=time.strftime("%Y-%m-%d %H:%M:%S %z", written),
        # If the settings are invalid in the current version, all of them.
        differing=_flat(
            settings if study is None else study.model_dump(mode="json", exclude_defaults=True)
        ),
        stale=[fault] if fault else _outdated(place, folder),
        settings=settings,
    )
    if kind.is_scored:
        found.stale += data.of_reports(name)
        found.models = language_models(results, name)
    if not issubclass(kind, TrainedStudy):
        return found
    if missing := blocks.without_rows(name, study, results) if study is not None else []:
        found.stale.append(
            f"{len(missing)} blocks have no rows: {blocks.listed(missing)}; run Snakemake"
        )
    seals.require_intact(results, [folder / "comparison.json", folder / "runs.json"])
    found.comparison = records.read_json(folder / "comparison.json", records.ComparisonRecord)
    found.stale += [
        f"the study was compared with {change}; run Snakemake to update it"
        for change in _raised("comparison", found.comparison)
    ]
    listed = records.read_json(folder / "runs.json", list[records.RunRecord])
    if named := set[str]() if fault else _named(place.path, place.line):
        found.runs = [run for run in listed if run["id"] in named]
    else:
        found.runs = _chosen(listed, place)
    found.models = _models(found.runs, results)
    return found


def _models(runs: Sequence[Record], results: Path) -> Sequence[Record]:
    """Return the language models that provided the class probabilities of runs."""
    for run in reversed(runs):
        if "language_model" in versions.training_versions(run["settings"]):
            return language_models(results, run["settings"]["dataset"]["text"])
    return []


def _chosen(listed: Sequence[Record], place: FoundAt) -> Sequence[Record]:
    """Return the runs behind a file that does not name them: it is in folders named after data set
    and objective; figures and tables use all runs.
    """
    path, _, (_, *parts) = place
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


def _outdated(place: FoundAt, artefacts: Path) -> list[str]:
    """Report whether a file was made by other code than today's, or from rows that have changed
    since.
    """
    path, _, (_, *parts) = place
    sentences = []
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


def _raised(step: str, recorded: Record) -> list[str]:
    """Describe whether the version of a step is higher than the recorded one."""
    return versions.raised({step: recorded.get("version", 1)}, {step: VERSIONS[step]})


def _marked(record: Record, store: RunStore, data: DataChanges) -> Record:
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


def _valid(settings: Section) -> Any:
    """Return the study with these settings; None if they are invalid in the current version."""
    try:
        return kind_of(settings).model_validate(settings)
    except ValidationError:
        return None


def _flat(settings: Section) -> dict[Any, Any]:
    """Flatten settings to dotted names.

    Example:
        >>> _flat({"training": {"epochs": 2}, "seeds": 8})
        {'seeds': 8, 'training.epochs': 2}
    """
    return pd.json_normalize(dict(settings)).to_dict("records")[0]


def as_text(origin: Origin) -> str:
    """Format the provenance of a result for a terminal."""
    lines = [origin.result]
    for name, values in _entries(origin).items():
        counts = Counter(values)
        shown = [
            value if count == 1 or len(counts) == 1 else f"{count} × {value}"
            for value, count in counts.items()
        ]
        if len(shown) == 1 and len(name) <= 9:
            lines.append(f"  {name:<10} {shown[0]}")
        elif shown:
            lines += [f"  {name}", *(f"    {value}" for value in shown)]
    if (more := len(origin.runs) - LISTED_RUNS) > 0:
        lines.append(f"    and {more} more; --json lists all runs and settings")
    return "\n".join(lines)


def _entries(origin: Origin) -> dict[str, Iterable[str]]:
    """Return the lines of each heading; equal lines are counted."""
    runs = origin.runs
    trained = [*runs, *(model for model in origin.models if "versions" in model)]
    machines = [record["machine"] for record in trained]
    spent = origin.time
    took = (
        f"{spent['seconds']:,.1f} s of training, {spent['gpu_seconds']:,.1f} GPU seconds,"
        f" {spent['attempts']} attempts"
    )
    answers = []
    if origin.comparison is not None:
        headroom = origin.comparison["headroom"]
        answers = [f"{entry['dataset']}: {entry['sentence']}" for entry in headroom]
        answers.append(origin.comparison["primary"]["answer"])
    return {
        "study": [": ".join(filter(None, (origin.study, origin.title)))],
        "written": [origin.written],
        "state": origin.stale or ["up to date with the code and the runs in the store"],
        "data set": (run["dataset"] for run in runs),
        "objective": (run["objective"] for run in runs),
        "seeds": [", ".join(map(str, sorted({run["seed"] for run in runs})))] if runs else [],
        "data": (f"{run['source']['name']}, checksum {run['data']}" for run in runs),
        "code": map(_code, trained),
        "host": (f"{machine['host']} ({machine['system']})" for machine in machines),
        "CPU": (machine.get("cpu", "unknown") for machine in machines),
        "device": (
            f"{record.get('devices', 1)} × {record['device']}, {record.get('threads', 1)} threads"
            for record in trained
        ),
        "libraries": (
            ", ".join(f"{name} {version}" for name, version in record["versions"].items())
            for record in trained
        ),
        "evaluated": (_code(run["evaluated"]) for run in runs if "evaluated" in run),
        "time": [took] if trained else [],
        "answer": answers,
        "settings that differ from the defaults": (
            f"{name}: {value}" for name, value in origin.differing.items()
        ),
        "models": (
            f"{model['name']} on {model['corpus']}: {model.get('id', model['folder'])}"
            f" ({model['state']})"
            for model in origin.models
        ),
        "runs": (
            f"{run['id']}  {run['dataset']}, {run['objective']}, seed {run['seed']}:"
            f" {run['seconds']:,.1f} s ({run['state']})"
            for run in runs[:LISTED_RUNS]
        ),
    }


def _code(record: Record) -> str:
    """Return the versions and the commit that made a record."""
    commit = record["commit"] or "unknown"
    return f"{versions.summary(record['code']['versions'])}, commit {commit}"
