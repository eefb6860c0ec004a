"""Run identity: a short hash of settings, data and seed."""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from trueneg.config.runs import OF_GUIDE, Run
from trueneg.errors import UserError
from trueneg.specs.kinds import kind_name, kind_of
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sections import RunSettings, Section
from trueneg.specs.settings import is_technical, models_within
from trueneg.specs.temperature import temperature_of
from trueneg.store.run_files import with_further

MISSING = object()  # unequal to every setting
# Nested settings that do not affect training: where files are, whose checksums are part of the
# data's, and the use of hubs.
PLACES = {
    ("features", "path"),
    ("vectors", "path"),
    ("vectors", "column"),
    ("sentence_transformers", "offline"),
}


def run_id(run: Run, source_checksum: str) -> str:
    """Return the first 12 hexadecimal digits of a SHA-256 of settings, data and seed, independent
    of the requesting study.

    Args:
        run: run with all settings resolved.
        source_checksum: checksum of the training data.
    """
    made_of = {"settings": identity(run.settings), "data": source_checksum, "seed": run.seed}
    return hashlib.sha256(
        json.dumps(made_of, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()[:12]


def with_inputs(checksum: str, weights: Mapping[str, str], mined: str | None) -> str:
    """Return the checksum of a run's data together with those of the weights of its frozen towers,
    by section, and of its mined hard negatives, if any.
    """
    # as ids have always had it: guides come last
    ordered = sorted(weights.items(), key=lambda item: item[0].startswith(OF_GUIDE))
    of_towers = {f"{section} weights": of_tower for section, of_tower in ordered}
    return with_further(checksum, of_towers, {} if mined is None else {"mined": mined})


def identity(settings: RunSettings) -> RunSettings:
    """Return the settings that determine a run's id, by section: those that affect training and
    differ from their frozen value.

    Keys that the typed models no longer contain are included as recorded. Those that were in every
    id before they were removed are added with the only value in use.

    Args:
        settings: resolved settings of a requested or recorded run.
    """
    removed = frozen()["removed"].get(kind_name(kind_of(settings)), {})
    sections = {
        section: removed.get(f"{section} {_tag(values)}", {}) | dict(values)
        for section, values in settings.items()
    }
    # An objective's own temperature makes the same run as that of the training.
    if sections["objective"].pop("temperature", None) is not None:
        sections["training"]["temperature"] = temperature_of(settings).initial
    affecting: dict[str, dict[str, Any]] = {}
    for section, values in sections.items():
        model = model_of(settings, section)
        left_out = frozen_values(settings, section)
        for key, value in values.items():
            field = model.model_fields.get(key) if model is not None else None
            execution_only = field is not None and is_technical(field)
            is_frozen = value in frozen_alternatives(left_out.get(key, MISSING))
            if not execution_only and not is_frozen:
                affecting.setdefault(section, {})[key] = _nested(value, removed)
    return affecting


def _nested(value: Any, removed: Section) -> Any:
    """Return a setting's value; in nested settings, leave out frozen values and file paths, and add
    removed keys.
    """
    if not isinstance(value, Mapping):
        return value
    name = str(value.get("schedule", _tag(value)))
    values = frozen()["nested"].get(name, {})
    value = {**removed.get(name, {}), **value}
    kept = {
        key: inner
        for key, inner in value.items()
        if inner != values.get(key, MISSING) and (name, key) not in PLACES
    }
    return {key: _nested(inner, {}) for key, inner in kept.items()}


def refuse_other_settings(path: Path, recorded: RunSettings, requested: RunSettings) -> None:
    """Compare the recorded settings of a finished run with those requested under its id.

    Args:
        path: the run's record, for the message.
        recorded: settings in the record; missing keys take their frozen values.
        requested: settings of the run that would reuse the finished run.

    Raises:
        UserError: if they differ in a setting that affects training.
    """
    if different := "; ".join(different_settings(recorded, requested)):
        raise UserError(
            f"{path}: this run has the requested id but different settings ({different}). Move its"
            " folder away to train it again."
        )


def different_settings(recorded: RunSettings, requested: RunSettings) -> list[str]:
    """Describe each setting that affects training and differs between a recorded and a requested
    run.
    """
    sides = identity(recorded), identity(requested)
    keys = dict.fromkeys(
        (section, key) for side in sides for section, values in side.items() for key in values
    )
    different = []
    for section, key in keys:
        values = [
            side.get(section, {}).get(key, frozen_values(recorded, section).get(key, MISSING))
            for side in sides
        ]
        if values[0] != values[1]:
            shown = ["nothing" if value is MISSING else json.dumps(value) for value in values]
            different.append(f"{section}.{key}: recorded {shown[0]}, requested {shown[1]}")
    return different


def same_evaluation(kind: type[TrainedStudy], recorded: Section, requested: Section) -> bool:
    """Return whether evaluation settings agree in everything that affects rows.

    Args:
        kind: kind of the study.
        recorded: settings of an earlier evaluation; missing keys take their defaults; keys that no
            longer exist are ignored.
        requested: resolved settings.
    """
    return evaluation_digest(kind, recorded) == evaluation_digest(kind, requested)


def evaluation_digest(kind: type[TrainedStudy], settings: Section) -> str:
    """Return eight characters that stand for everything in evaluation settings that affects rows;
    empty if a value is no longer allowed.

    Defaults are left out, so that a new key does not change the digest of earlier settings.

    Args:
        kind: kind of the study.
        settings: the settings; keys that no longer exist are ignored.
    """
    (model,) = models_within(kind.model_fields["evaluation"].annotation)
    known = {key: value for key, value in settings.items() if key in model.model_fields}
    try:
        resolved = model.model_validate(known)
    except ValidationError:
        return ""
    technical = {key for key, field in model.model_fields.items() if is_technical(field)}
    content = resolved.model_dump(mode="json", exclude=technical, exclude_defaults=True)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]


def model_of(settings: RunSettings, section: str) -> type[BaseModel] | None:
    """Return the typed model of a section of a run's settings; None if it no longer exists."""
    # The objective's section is one of the study's objectives.
    field = kind_of(settings).model_fields.get("objectives" if section == "objective" else section)
    models = models_within(field.annotation) if field else []
    return (
        models[0]
        if len(models) == 1
        else next((model for model in models if _describes(model, settings[section])), None)
    )


def is_trained(settings: RunSettings) -> bool:
    """Return whether a run's objective trains anything; one that no longer exists did."""
    return getattr(model_of(settings, "objective"), "TRAINED", True)


def frozen_values(settings: RunSettings, section: str) -> Section:
    """Return the frozen identity values of a section of a run's settings."""
    of_section = frozen().get(kind_name(kind_of(settings)), {}).get(section, {})
    # If a section has one model per name, its frozen values are also listed by name.
    of_name = of_section.get(_tag(settings.get(section, {})))
    return of_name if isinstance(of_name, dict) else of_section


def frozen_alternatives(value: object) -> list[Any]:
    """Return the values that a frozen value stands for: ``{any: […]}`` for several, with which the
    same data give the same run.
    """
    return value["any"] if isinstance(value, dict) and "any" in value else [value]


@functools.cache
def frozen() -> dict[str, dict[str, dict[str, Any]]]:
    """Read all frozen identity values: by kind of study, section, name (if the section has several
    models) and key.
    """
    return yaml.safe_load(Path(__file__).with_name("frozen.yaml").read_text(encoding="utf-8"))


def _tag(values: Section) -> str:
    """Return the value that selects a section's model: ``name``, or ``source`` for data."""
    return str(values.get("name", values.get("source")))


def _describes(model: type[BaseModel], values: Section) -> bool:
    key = "name" if "name" in model.model_fields else "source"
    return _tag(values) in get_args(model.model_fields[key].annotation)
