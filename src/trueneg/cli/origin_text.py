"""The origin of a result in words, for a terminal."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LISTED_RUNS = 12  # more are counted only


def origin_text(origin: Mapping[str, Any]) -> str:
    """Lines that tell what made a result.

    Args:
        origin: from :func:`trueneg.cli.origin.origin_of`.
    """
    runs, models = origin["runs"], origin["language models"]
    made = [*runs, *(model for model in models if "versions" in model)]
    lines = [origin["result"]]
    lines += _entry("study", [": ".join(filter(None, (origin["study"], origin.get("title"))))])
    lines += _entry("written", [origin["written"]])
    lines += _entry("state", origin["stale"] or ["holds: made with today's code and what lies in the store"])
    lines += _entry("data set", _counted(run["dataset"] for run in runs))
    lines += _entry("objective", _counted(run["objective"] for run in runs))
    lines += _entry("seeds", [", ".join(str(seed) for seed in sorted({run["seed"] for run in runs}))] if runs else [])
    lines += _entry(
        "data", _counted(f"{run['source']['name']}, checksum {run.get('data', run['source']['checksum'])}" for run in runs)
    )
    lines += _entry("code", _counted(f"fingerprint {one['fingerprint']}" for one in made))
    lines += _entry("commit", _counted(_commit(one["commit"]) for one in made))
    lines += _entry("host", _counted(f"{one['machine']['host']} ({one['machine']['system']})" for one in made))
    lines += _entry("device", _counted(_device(one) for one in made))
    lines += _entry(
        "libraries", _counted(", ".join(f"{name} {version}" for name, version in one["versions"].items()) for one in made)
    )
    lines += _entry("evaluated", _counted(_evaluation(run["evaluated"]) for run in runs if "evaluated" in run))
    lines += _entry("time", [_time(origin["time"])] if made else [])
    lines += _entry("answer", _answer(origin.get("comparison")))
    lines += _entry("settings that are not the defaults", [f"{name}: {value}" for name, value in origin["differing"].items()])
    lines += _entry("language models", [_language_model(model) for model in models])
    lines += _entry("runs", [_run(run) for run in runs[:LISTED_RUNS]])
    if len(runs) > LISTED_RUNS:
        lines.append(f"    and {len(runs) - LISTED_RUNS} more; --json tells all of them, and all settings")
    return "\n".join(lines)


def _entry(name: str, told: Sequence[str]) -> list[str]:
    if not told:
        return []
    if len(told) == 1 and len(name) <= 9:
        return [f"  {name:<10} {told[0]}"]
    return [f"  {name}", *(f"    {one}" for one in told)]


def _counted(told: Iterable[str]) -> list[str]:
    """Each different one; with its number where there are several.

    Example:
        >>> _counted(["CL", "DCL", "CL"]), _counted(["CL", "CL"])
        (['2 × CL', '1 × DCL'], ['CL'])
    """
    counts = Counter(told)
    return list(counts) if len(counts) == 1 else [f"{count} × {one}" for one, count in counts.items()]


def _commit(commit: str) -> str:
    if not commit:
        return "not known: the code was in no git checkout"
    return commit.removesuffix("+changes") + (", with changes that were not committed" if commit.endswith("+changes") else "")


def _device(record: Mapping[str, Any]) -> str:
    several = record.get("devices", 1)
    threads = f", {_number(record['threads'], 'thread')}" if "threads" in record else ""
    return (f"{several} × " if several != 1 else "") + record["device"] + threads


def _evaluation(evaluated: Mapping[str, Any]) -> str:
    return f"fingerprint {evaluated['fingerprint']}, commit {_commit(evaluated['commit'])}, on {evaluated['machine']['host']}"


def _time(spent: Mapping[str, Any]) -> str:
    runs, attempts = _number(spent["runs"], "run"), _number(spent["attempts"], "attempt")
    return f"{spent['seconds']:,.1f} s of training, {spent['gpu_seconds']:,.1f} GPU seconds, in {attempts} at {runs}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _answer(comparison: Mapping[str, Any] | None) -> list[str]:
    if comparison is None:
        return []
    return [*(f"gate in {gate['dataset']}: {gate['verdict']}" for gate in comparison["gate"]), comparison["primary"]["answer"]]


def _language_model(model: Mapping[str, Any]) -> str:
    where = f"{model['id']}, fold {model['fold']}" if "id" in model else f"{model['folder']} at revision {model['revision']}"
    return f"{model['name']} on {model['corpus']}: {where} ({model['state']})"


def _run(run: Mapping[str, Any]) -> str:
    what = f"{run['dataset']}, {run['objective']}, seed {run['seed']}"
    return f"{run['id']}  {what}: {run['seconds']:,.1f} s in {_number(len(run['attempts']), 'attempt')} ({run['state']})"
