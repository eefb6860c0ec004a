"""Expand a study into runs: data set × objective × seed, in blocks of seeds with one job per block."""

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_jsonable_python

from trueneg.config.image_study import ImageStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.trained_study import TrainedStudy
from trueneg.specs.settings import Settings, format_value

RunSettings = Mapping[str, Mapping[str, Any]]  # by section
Sections = dict[str, Any]  # resolved models by section


@dataclasses.dataclass(frozen=True)
class Run:
    """One training: resolved settings (no sweeps left) and a seed."""

    study: str
    dataset: str
    objective: str
    seed: int
    settings: RunSettings

    def to_json(self) -> dict[str, Any]:
        """Return plain values with a fixed key order (Snakemake compares parameters in serialised form)."""
        return dataclasses.asdict(self)


def training_kind(settings: RunSettings) -> str:
    """Return the kind of training in a run's settings; the default is images."""
    return settings["training"].get("kind", "images")


def swept(section: Settings) -> dict[str, list[Any]]:
    """Return the fields of a section that hold a sweep; fields declared as lists are excluded."""
    return {
        name: getattr(section, name)
        for name, field in type(section).model_fields.items()
        if isinstance(getattr(section, name), list) and getattr(field.annotation, "__origin__", None) is not list
    }


def canonical(swept: Mapping[str, Any]) -> str:
    """Format swept values as canonical JSON, for the columns ``condition`` and ``variant`` of rows.

    Example:
        >>> canonical({"temperature": 0.1, "class_probability": "low"})
        '{"class_probability":"low","temperature":0.1}'
    """
    return json.dumps(to_jsonable_python(swept), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _variants(sections: Sections, counts: Callable[[str, str], bool]) -> Iterator[tuple[str, dict[str, Any], Sections]]:
    """Yield each combination of the selected sweeps: its label, the swept values by field, and the resolved sections.

    Args:
        sections: models by name.
        counts: predicate that selects sweeps by section and field.
    """
    axes = {
        (name, field): values
        for name, section in sections.items()
        for field, values in swept(section).items()
        if counts(name, field)
    }
    for combination in itertools.product(*axes.values()):
        resolved, values = dict(sections), {}
        for (name, field), value in zip(axes, combination, strict=True):
            resolved[name] = resolved[name].model_copy(update={field: value})
            values[field] = value
        yield ",".join(f"{field}={format_value(value)}" for field, value in values.items()), values, resolved


def _is_condition(study: TrainedStudy) -> Callable[[str, str], bool]:
    """Return a predicate for sweeps whose values are compared like data sets; other sweeps give candidates for selection."""
    return lambda section, field: section == "dataset" or (section == "training" and field in study.conditions)


def _conditions(study: TrainedStudy) -> dict[str, tuple[dict[str, Any], Sections]]:
    found = _variants({"dataset": study.dataset, "training": study.training}, _is_condition(study))
    return {label or study.dataset.source: (values, resolved) for label, values, resolved in found}


def conditions(study: TrainedStudy) -> dict[str, dict[str, Any]]:
    """Return the swept values of each data set or condition, by label."""
    return {label: values for label, (values, _) in _conditions(study).items()}


def datasets(study: TrainedStudy) -> dict[str, Any]:
    """Return the resolved data settings of each data set or condition of a study, by label."""
    return {label: resolved["dataset"] for label, (_, resolved) in _conditions(study).items()}


def corpora(study: LikelihoodStudy) -> dict[str, Any]:
    """Return the resolved report settings of each corpus of a likelihood study, by label."""
    reports: Any = study.reports
    variants = _variants({"reports": reports}, lambda section, field: True)
    return {label or reports.source: resolved["reports"] for label, _, resolved in variants}


def negative_counts(study: TrainedStudy) -> dict[str, int]:
    """Return N for each label of :func:`datasets` if batch size B is a condition: 2B − 2 for two views, B − 1 for pairs."""
    if "batch_size" not in study.conditions:
        return {}
    views = 2 if isinstance(study, ImageStudy) else 1
    return {label: views * (resolved["training"].batch_size - 1) for label, (_, resolved) in _conditions(study).items()}


def _labelled(study: TrainedStudy) -> Iterator[tuple[str, str, dict[str, Any], Sections]]:
    """Yield the objective, label, swept values and resolved sections of every variant of every objective."""
    is_condition = _is_condition(study)
    for name, objective in study.objectives.items():
        for label, values, resolved in _variants(study.sections_of(objective), lambda *field: not is_condition(*field)):
            yield name, f"{name},{label}" if label else name, values, resolved


def objectives(study: TrainedStudy) -> dict[str, Sections]:
    """Return the resolved settings of each objective variant, including its training, by label.

    Sweeps that are conditions are kept; :func:`runs_of` resolves them.
    """
    return {label: resolved for _, label, _, resolved in _labelled(study)}


def candidates(study: TrainedStudy) -> dict[str, dict[str, str]]:
    """Return the swept variants of each objective, by label: the candidates for selection on the validation split."""
    found: dict[str, dict[str, str]] = {}
    for name, label, values, _ in _labelled(study):
        found.setdefault(name, {})[label] = canonical(values)
    return found


def row_names(name: str, study: TrainedStudy) -> dict[tuple[str, str], dict[str, str]]:
    """Return the identifying columns of the rows of each run, by the labels of data set and objective variant."""
    return {
        (dataset, label): {
            "study": name,
            "dataset": dataset,
            "condition": canonical(condition),
            "objective": objective,
            "variant": canonical(variant),
        }
        for dataset, condition in conditions(study).items()
        for objective, label, variant, _ in _labelled(study)
    }


def blocks(study: TrainedStudy) -> dict[str, list[int]]:
    """Return the seeds of each job by block name; the name lists the seeds, so a block that grows gets a new name."""
    seeds, size = study.seed_list, study.training.seeds_per_job
    found = {}
    for start in range(0, len(seeds), size):
        block = seeds[start : start + size]
        contiguous = len(block) > 1 and block == list(range(block[0], block[-1] + 1))
        found["seed" + (f"{block[0]}-{block[-1]}" if contiguous else "+".join(map(str, block)))] = block
    return found


def settings_of(study: TrainedStudy) -> dict[tuple[str, str], RunSettings]:
    """Return the resolved run settings, by the labels of :func:`datasets` and :func:`objectives`."""
    found: dict[tuple[str, str], RunSettings] = {}
    for (dataset, (_, chosen)), (label, variant) in itertools.product(_conditions(study).items(), objectives(study).items()):
        # Objectives without training have no sweeps in `training`.
        fields = [field for field in study.conditions if field in swept(variant["training"])]
        training = variant["training"].model_copy(update={field: getattr(chosen["training"], field) for field in fields})
        sections = variant | {"dataset": chosen["dataset"], "training": training}
        found[dataset, label] = {section: model.model_dump(mode="json") for section, model in sections.items()}
    return found


def runs_of(name: str, study: TrainedStudy, dataset: str, objective: str, seeds: Sequence[int]) -> list[Run]:
    """Return the runs of one data set and one objective of a study.

    Args:
        name: the study's name in the configuration.
        study: the study.
        dataset: a label from :func:`datasets`.
        objective: a label from :func:`objectives`.
        seeds: seeds of the runs.
    """
    settings = settings_of(study)[dataset, objective]
    return [Run(name, dataset, objective, seed, settings) for seed in seeds]


def all_runs(name: str, study: TrainedStudy) -> list[Run]:
    """Return all runs of a study."""
    return [Run(name, *labels, seed, settings) for labels, settings in settings_of(study).items() for seed in study.seed_list]


def source_key(settings: Mapping[str, Any]) -> str:
    """Return the name of a data set's decoded source, shared by studies that read the same files at the same size."""
    reading = {key: settings[key] for key in ("source", "path", "resolution")}
    size = f"-{settings['resolution']}px" if settings["resolution"] else ""
    return f"{settings['source']}{size}-{_digest(reading)[:6]}"


def pairs_key(settings: Mapping[str, Any]) -> str:
    """Return the name of a data set's image–sentence file, shared by studies with the same settings."""
    joining = {key: value for key, value in settings.items() if key not in ("test", "validation")}
    return f"{settings['source']}-{settings['resolution']}px-{_digest(joining)[:6]}"


def benchmark_key(settings: Mapping[str, Any], resolution: int) -> str:
    """Return the name of CheXpert 8×200 at the size of a study's images."""
    return f"chexpert_8x200-{resolution}px-{_digest([settings['path'], settings['lists']])[:6]}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
