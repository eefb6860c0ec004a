"""Versions of the code behind expensive results, and which results are stale.

Everything expensive has a version: an integer ``VERSION`` of its settings class, or an entry in
:mod:`trueneg.specs.stages`. Whoever changes results raises it; the golden tests fail otherwise. A
record holds the versions of everything that made it, and a result is stale if one of them has been
raised since.
"""

import functools
import hashlib
import json
import pkgutil
from collections.abc import Mapping
from pathlib import Path

from trueneg.config.runs import is_of_texts, towers_of
from trueneg.legible import counted
from trueneg.specs.kinds import TRAINED, kind_name, kind_of
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.objectives.base import FROM_LIKELIHOODS
from trueneg.specs.pairs import PAIRS, TEXTS
from trueneg.specs.sections import RunSettings, Section
from trueneg.specs.settings import Settings, models_within, tag_of
from trueneg.specs.stages import DECODING, VERSIONS
from trueneg.specs.tasks.pairs.chexpert_8x200 import TASK as CHEXPERT_8X200
from trueneg.specs.texts import TEXT_PAIRS
from trueneg.store.records import Record

PACKAGE = Path(__file__).resolve().parents[1]
NESTED = ("targets", "guide")  # parts of an objective that have versions of their own

Versions = dict[str, int]


def today() -> Versions:
    """Return the current version of everything that has one, by name, such as
    ``objective/images/dcl``.
    """
    versions = VERSIONS | {f"decoding/{source}": version for source, version in DECODING.items()}
    for kind, study in TRAINED.items():
        versions |= {f"task/{kind}/{name}": task for name, task in _task_versions(study).items()}
    versions |= {name: model.VERSION for name, model in _versioned().items()}
    return dict(sorted(versions.items()))


@functools.cache
def _versioned() -> dict[str, type[Settings]]:
    """Return the models of sources, encoders and objectives, by the names of their versions."""
    models: dict[str, type[Settings]] = {}
    for prefix, sources in (("pairs", PAIRS), ("texts", TEXT_PAIRS), ("reports", TEXTS)):
        models |= {f"{prefix}/{source}": model for source, model in sources.items()}
    for kind, study in TRAINED.items():
        for section in ("encoder", "text_encoder", "objectives"):
            field = study.model_fields.get(section)
            for model in models_within(field.annotation) if field is not None else ():
                models |= _tagged(f"{section.removesuffix('s')}/{kind}", model)
                for key in set(NESTED) & model.model_fields.keys():
                    for part in models_within(model.model_fields[key].annotation):
                        models |= _tagged(f"{key}/{kind}", part)
    return models


def version_parameter(*names: str) -> dict[str, Versions]:
    """Return a parameter of a rule with the named versions once one of them has been raised, so
    that its jobs run again.
    """
    versions = today()
    later = {name: versions[name] for name in names if versions[name] > 1}
    return {"version": later} if later else {}


def _tagged(prefix: str, model: type[Settings]) -> dict[str, type[Settings]]:
    _, names = tag_of(model)
    return {f"{prefix}/{name}": model for name in names}


def training_versions(settings: RunSettings) -> Versions:
    """Return the current versions of everything that makes a run with these settings, from decoding
    to the objective.
    """
    study = kind_of(settings)
    kind = kind_name(study)
    objective = settings["objective"]
    source = settings["dataset"].get("source")
    parts = {section: settings.get(section) for section in ("objective", "encoder", "text_encoder")}
    parts |= {key: objective.get(key) for key in NESTED}
    names = [
        f"{part}/{kind}/{value.get('name')}"
        for part, value in parts.items()
        if isinstance(value, Mapping)
    ]
    for section, tower in towers_of(settings).items():
        names.append(
            f"{'text_encoder' if is_of_texts(section) else 'encoder'}/{kind}/{tower['name']}"
        )
    names += [f"training/{kind}", "subsets", *study.data_parts(source)]
    names += ["mining"] * (objective.get("hard_negatives") is not None)
    if "text_encoder" in study.SECTIONS:
        words = {value for value in objective.values() if isinstance(value, str)}
        if words.intersection(FROM_LIKELIHOODS):
            names += ["language_model", "likelihoods", "class_probability", f"reports/{source}"]
        # compares the language model's embeddings of the sentences
        elif objective.get("by") == "text":
            names.append("language_model")
    return _current(names)


def evaluation_versions(kind: type[TrainedStudy], settings: Section) -> Versions:
    """Return the current versions of the tasks that evaluate runs.

    Args:
        kind: kind of the study.
        settings: the study's evaluation settings; tasks whose section is None are left out, and
            optional ones without a section, which earlier records do not know.
    """
    optional = {name: None for name, task in kind.TASKS.items() if task.OPTIONAL}
    measured = [
        f"task/{kind_name(kind)}/{name}"
        for name in _task_versions(kind)
        if (optional | dict(settings)).get(name, {}) is not None
    ]
    return _current([f"evaluation/{kind_name(kind)}", *measured])


def _current(names: list[str]) -> Versions:
    """Return the current versions of the named parts; parts that no longer exist are left out."""
    versions = today()
    return {name: versions[name] for name in sorted(names) if name in versions}


def _task_versions(kind: type[TrainedStudy]) -> Versions:
    """Return the version of each evaluation task of a kind, by name."""
    # A task without settings needs no module among the specs.
    return {
        name: kind.TASKS[name].VERSION if name in kind.TASKS else 1
        for name in _task_names(kind.SAMPLES)
    }


@functools.cache
def _task_names(samples: str) -> list[str]:
    modules = pkgutil.iter_modules([str(PACKAGE / "evaluation" / samples)])
    return [module.name for module in modules]


def reading_version(samples: str, source: str) -> int:
    """Return the current version of the code that reads a source, given the kind of its
    :class:`trueneg.store.data_input.DataInput`.
    """
    if samples == "benchmark":
        return CHEXPERT_8X200.VERSION
    return today()[f"{'decoding' if samples == 'images' else samples}/{source}"]


def summary(versions: Mapping[str, int]) -> str:
    """Return versions in a few words.

    Example:
        >>> summary({"subsets": 1, "objective/images/dcl": 2})
        'version 1 except objective/images/dcl: 2'
    """
    usual = 1 if 1 in versions.values() else next(iter(versions.values()), 1)
    others = ", ".join(
        f"{name}: {version}" for name, version in versions.items() if version != usual
    )
    return f"version {usual}{' except ' if others else ''}{others}"


def digest(versions: Versions) -> str:
    """Return 16 hexadecimal digits that change with any version."""
    return hashlib.sha256(json.dumps(versions, sort_keys=True).encode()).hexdigest()[:16]


def raised(recorded: Mapping[str, int], now: Mapping[str, int]) -> list[str]:
    """Describe each version that has been raised since a result was made; parts without a recorded
    version had version 1.

    Example:
        >>> raised(
        ...     {"objective/images/dcl": 1, "subsets": 2}, {"objective/images/dcl": 2, "subsets": 2}
        ... )
        ['objective/images/dcl version 1 (now 2)']
    """
    pairs = ((name, recorded.get(name, 1), version) for name, version in now.items())
    return [
        f"{name} version {before} (now {version})"
        for name, before, version in pairs
        if before < version
    ]


def stale_training(record: Record) -> list[str]:
    """Describe the versions that have been raised since a run was trained; the run is stale if
    there are any.
    """
    return raised(record["code"]["versions"], training_versions(record["settings"]))


def stale_rows(record: Record) -> list[str]:
    """Describe the versions that have been raised since a run's rows were measured; empty without
    rows.
    """
    if "evaluated" not in record:
        return []
    evaluated = record["evaluated"]
    now = evaluation_versions(kind_of(record["settings"]), evaluated["settings"])
    return raised(evaluated["code"]["versions"], now)


def stale_language_model(record: Record) -> list[str]:
    """Describe the versions that have been raised since a language model was trained."""
    return raised(record["code"]["versions"], _current(["language_model"]))


def code_state(record: Record) -> str:
    """Return ``stale`` or ``stale rows`` if a version was raised since the run was trained or
    measured, else ``finished``.
    """
    if stale_training(record):
        return "stale"
    return "stale rows" if stale_rows(record) else "finished"


def stale_note(records: Mapping[str, Record], folder: Path) -> str:
    """Return a line about the stale runs in a folder; empty if there are none."""
    stale = sum(bool(stale_training(record)) for record in records.values())
    if not stale:
        return ""
    return (
        f"{counted(stale, 'run')} in {folder} {'is' if stale == 1 else 'are'} stale: a VERSION was"
        " raised after the training. `trueneg runs` marks them; remove their folders, then"
        " `snakemake --forcerun train` trains them again.\n"
    )
