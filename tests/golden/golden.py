"""Golden results: what the versioned code computed when its VERSIONs were last recorded, in
``golden.json``.

An entry is a small computation and the names of the versioned parts
(:func:`trueneg.store.versions.today`) that may change its result. The file holds, for each entry,
the result and the versions of its parts at that time. A different result is recorded only if one of
these versions is higher now.
"""

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.io.files import write_text
from trueneg.specs import tasks
from trueneg.specs.kinds import TRAINED
from trueneg.specs.pairs import PAIRS, TEXTS
from trueneg.specs.settings import models_within, tag_of
from trueneg.specs.texts import TEXT_PAIRS
from trueneg.store import versions

FILE = Path(__file__).with_name("golden.json")
PROJECT = Path(__file__).resolve().parents[2]
STAGES = "src/trueneg/specs/stages.py"
DIGITS = 8  # significant digits in the file
# Measured: float64 results differ by at most 6e-9 (relative) between processors with AVX-512, AVX2
# or neither (in torch, NumPy, MKL, OpenBLAS and oneDNN), between one and two threads, and with and
# without oneDNN. Mistakes in a method move them by 1e-3.
RTOL, ATOL = 1e-6, 1e-9

Golden = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Entry:
    """A computation whose result is recorded.

    Args:
        parts: names of the versioned parts that it depends on; the first one is what the entry is
            about.
        compute: returns numbers, texts, lists and mappings of them.
        rtol: relative tolerance of floating-point numbers.
    """

    parts: tuple[str, ...]
    compute: Callable[[], Any]
    rtol: float = RTOL


def plain(value: Any) -> Any:
    """Return a result as JSON holds it: floats with eight significant digits, and NaN as text."""
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):  # arrays, tensors and their scalars
        return plain(value.detach().tolist() if hasattr(value, "detach") else value.tolist())
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value


def equal(first: Any, second: Any, rtol: float) -> bool:
    """Return whether two plain results are equal: floats within the tolerance, everything else
    exactly.
    """
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            equal(first[key], second[key], rtol) for key in first
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(
            equal(*each, rtol) for each in zip(first, second, strict=True)
        )
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=rtol, abs_tol=ATOL)
    return first == second


def read() -> Golden:
    """Return the recorded entries by name."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def write(golden: Golden) -> None:
    """Write the recorded entries."""
    write_text(FILE, json.dumps(golden, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def versions_of(entry: Entry) -> dict[str, int]:
    """Return the current versions of an entry's parts."""
    now = versions.today()
    return {part: now[part] for part in entry.parts}


def raised(recorded: Mapping[str, Any], now: Mapping[str, int]) -> list[str]:
    """Return the parts whose version is higher now than in a recorded entry."""
    return [
        part for part, version in now.items() if version > recorded["versions"].get(part, version)
    ]


def updated(recorded: Golden, entries: Mapping[str, Entry]) -> tuple[Golden, list[str]]:
    """Compute all entries.

    Returns:
        What to record, and a message for each entry whose result has changed although no version
            was raised. Results that
        are equal within the tolerance keep their recorded digits. Entries that no longer exist are
            left out.
    """
    new, refused = {}, []
    for name, entry in entries.items():
        value, now, before = plain(entry.compute()), versions_of(entry), recorded.get(name)
        if before is not None and equal(before["value"], value, entry.rtol):
            value = before["value"]
        elif before is not None and not raised(before, now):
            refused.append(changed(name, entry))
        new[name] = {"value": value, "versions": now}
    return new, refused


def changed(name: str, entry: Entry) -> str:
    """Return the message for an entry whose result has changed although no version was raised."""
    first, *others = entry.parts
    others_too = f" (or of another part that changed: {', '.join(others)})" if others else ""
    return (
        f"{name} changed: raise VERSION of {first} ({place_of(first)}){others_too}, or restore the"
        " result."
    )


def place_of(part: str) -> str:
    """Return where the VERSION of a part is defined."""
    section, *names = part.split("/")
    if part in versions.VERSIONS or section == "decoding":
        return STAGES
    model: type | None
    sources = {"pairs": PAIRS, "texts": TEXT_PAIRS, "reports": TEXTS}
    if section in sources:
        model = sources[section][names[0]]
    elif section == "task":
        kind, name = names
        model = TRAINED[kind].TASKS.get(name)
        if model is None:
            folder = Path(tasks.__file__).parent.relative_to(PROJECT) / TRAINED[kind].SAMPLES
            return f"{folder}/{name}.py, a new file with a TASK that has a VERSION"
    else:
        model = _models(names[0])[part]
    path = Path(inspect.getsourcefile(model) or "").relative_to(PROJECT)
    return f"class {model.__name__} in {path}"


def _models(kind: str) -> dict[str, type]:
    """Return the settings classes of a kind of training by the names of their versions."""
    models: dict[str, type] = {}
    for section in ("encoder", "text_encoder", "objectives"):
        field = TRAINED[kind].model_fields.get(section)
        for model in models_within(field.annotation) if field is not None else ():
            models |= {
                f"{section.removesuffix('s')}/{kind}/{name}": model for name in tag_of(model)[1]
            }
            for key in set(versions.NESTED) & model.model_fields.keys():
                for part in models_within(model.model_fields[key].annotation):
                    models |= {f"{key}/{kind}/{name}": part for name in tag_of(part)[1]}
    return models


def checksum(*contents: Any) -> str:
    """Return the first half of the SHA-256 of arrays, tables and texts; floats in tables are
    rounded to six digits.
    """
    digest = hashlib.sha256()
    for content in contents:
        if isinstance(content, pd.DataFrame):
            digest.update(content.to_csv(index=False, float_format="%.6g").encode())
        elif isinstance(content, np.ndarray) and content.dtype != object:
            digest.update(
                f"{content.dtype.str} {content.shape}".encode()
                + np.ascontiguousarray(content).tobytes()
            )
        else:
            digest.update(repr(list(content)).encode())
    return digest.hexdigest()[:32]
