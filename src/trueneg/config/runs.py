"""A study expands into runs: data set × objective × seed, in blocks of seeds that one job handles."""

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
        """Plain values with a fixed order of keys (Snakemake compares parameters as they are written)."""
        return dataclasses.asdict(self)


def training_kind(settings: RunSettings) -> str:
    """The kind of training that a run's settings name; without a name it is of images."""
    return settings["training"].get("kind", "images")


def swept(section: Settings) -> dict[str, list[Any]]:
    """The fields of a section that hold a sweep; a field whose own type is a list is none."""
    return {
        name: getattr(section, name)
        for name, field in type(section).model_fields.items()
        if isinstance(getattr(section, name), list) and getattr(field.annotation, "__origin__", None) is not list
    }


def canonical(swept: Mapping[str, Any]) -> str:
    """Swept values as canonical JSON: what the columns ``condition`` and ``variant`` of rows hold.

    Example:
        >>> canonical({"temperature": 0.1, "class_probability": "low"})
        '{"class_probability":"low","temperature":0.1}'
    """
    return json.dumps(to_jsonable_python(swept), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _variants(sections: Sections, counts: Callable[[str, str], bool]) -> Iterator[tuple[str, dict[str, Any], Sections]]:
    """Every combination of the sections' sweeps that count: its label, the swept values by field, and the resolved sections.

    Args:
        sections: models by name.
        counts: whether the sweep of a section's field is meant.
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
    """Whether a sweep's values stand side by side as data sets do; those of the others are candidates to select from."""
    return lambda section, field: section == "dataset" or (section == "training" and field in study.conditions)


def _conditions(study: TrainedStudy) -> dict[str, tuple[dict[str, Any], Sections]]:
    found = _variants({"dataset": study.dataset, "training": study.training}, _is_condition(study))
    return {label or study.dataset.source: (values, resolved) for label, values, resolved in found}


def conditions(study: TrainedStudy) -> dict[str, dict[str, Any]]:
    """Label of each data set or condition, with the swept values that make it."""
    return {label: values for label, (values, _) in _conditions(study).items()}


def datasets(study: TrainedStudy) -> dict[str, Any]:
    """Label of each data set of a study, or of each condition on it, with the resolved settings of the data."""
    return {label: resolved["dataset"] for label, (_, resolved) in _conditions(study).items()}


def corpora(study: LikelihoodStudy) -> dict[str, Any]:
    """Label of each corpus of a likelihood study, with the resolved settings of its reports."""
    reports: Any = study.reports
    variants = _variants({"reports": reports}, lambda section, field: True)
    return {label or reports.source: resolved["reports"] for label, _, resolved in variants}


def negative_counts(study: TrainedStudy) -> dict[str, int]:
    """N at each label of :func:`datasets`, where the batch size B is a condition: 2B − 2 of two views, B − 1 of pairs."""
    if "batch_size" not in study.conditions:
        return {}
    views = 2 if isinstance(study, ImageStudy) else 1
    return {label: views * (resolved["training"].batch_size - 1) for label, (_, resolved) in _conditions(study).items()}


def _labelled(study: TrainedStudy) -> Iterator[tuple[str, str, dict[str, Any], Sections]]:
    """Each variant of each objective: the objective, the variant's label, what was swept, the resolved sections."""
    is_condition = _is_condition(study)
    for name, objective in study.objectives.items():
        for label, values, resolved in _variants(study.sections_of(objective), lambda *field: not is_condition(*field)):
            yield name, f"{name},{label}" if label else name, values, resolved


def objectives(study: TrainedStudy) -> dict[str, Sections]:
    """Label of each objective's variant, with the resolved settings of the objective and of the training.

    Sweeps that are conditions stay as they are: :func:`runs_of` resolves them.
    """
    return {label: resolved for _, label, _, resolved in _labelled(study)}


def candidates(study: TrainedStudy) -> dict[str, dict[str, str]]:
    """The variants of each objective that a sweep made, by label: what selection on the validation split chooses from."""
    found: dict[str, dict[str, str]] = {}
    for name, label, values, _ in _labelled(study):
        found.setdefault(name, {})[label] = canonical(values)
    return found


def row_names(name: str, study: TrainedStudy) -> dict[tuple[str, str], dict[str, str]]:
    """By the labels of a data set and of an objective's variant: what the rows of their runs are named by."""
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
    """Blocks of seeds that one job handles; a block's name tells its seeds, so a block that grew is another block."""
    seeds, size = study.seed_list, study.training.seeds_per_job
    found = {}
    for start in range(0, len(seeds), size):
        block = seeds[start : start + size]
        contiguous = len(block) > 1 and block == list(range(block[0], block[-1] + 1))
        found["seed" + (f"{block[0]}-{block[-1]}" if contiguous else "+".join(map(str, block)))] = block
    return found


def settings_of(study: TrainedStudy) -> dict[tuple[str, str], RunSettings]:
    """Resolved settings of runs, by the labels of :func:`datasets` and :func:`objectives`."""
    found: dict[tuple[str, str], RunSettings] = {}
    for (dataset, (_, chosen)), (label, variant) in itertools.product(_conditions(study).items(), objectives(study).items()):
        # An objective that trains nothing has no sweep there.
        fields = [field for field in study.conditions if field in swept(variant["training"])]
        training = variant["training"].model_copy(update={field: getattr(chosen["training"], field) for field in fields})
        sections = variant | {"dataset": chosen["dataset"], "training": training}
        found[dataset, label] = {section: model.model_dump(mode="json") for section, model in sections.items()}
    return found


def runs_of(name: str, study: TrainedStudy, dataset: str, objective: str, seeds: Sequence[int]) -> list[Run]:
    """The runs of one data set and one objective of a study.

    Args:
        name: the study's name in the configuration.
        study: the study.
        dataset: a label from :func:`datasets`.
        objective: a label from :func:`objectives`.
        seeds: whose runs.
    """
    settings = settings_of(study)[dataset, objective]
    return [Run(name, dataset, objective, seed, settings) for seed in seeds]


def all_runs(name: str, study: TrainedStudy) -> list[Run]:
    """Every run of a study."""
    return [Run(name, *labels, seed, settings) for labels, settings in settings_of(study).items() for seed in study.seed_list]


def source_key(settings: Mapping[str, Any]) -> str:
    """Name of the decoded source of a data set, shared by the studies that read the same files at the same size."""
    reading = {key: settings[key] for key in ("source", "path", "resolution")}
    size = f"-{settings['resolution']}px" if settings["resolution"] else ""
    return f"{settings['source']}{size}-{_digest(reading)[:6]}"


def pairs_key(settings: Mapping[str, Any]) -> str:
    """Name of the images with their sentences that a data set reads, shared by the studies that ask for the same."""
    joining = {key: value for key, value in settings.items() if key not in ("test", "validation")}
    return f"{settings['source']}-{settings['resolution']}px-{_digest(joining)[:6]}"


def benchmark_key(settings: Mapping[str, Any], resolution: int) -> str:
    """Name of CheXpert 8×200 at the size of a study's images."""
    return f"chexpert_8x200-{resolution}px-{_digest([settings['path'], settings['lists']])[:6]}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
