"""A study expands into runs: data set × objective × seed, in blocks of seeds that one job handles."""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from trueneg.study.config import Study

SECTIONS = ("encoder", "projection", "augmentation", "training")  # with an objective, what a variant settles


@dataclass(frozen=True)
class Run:
    """One training: resolved settings (no sweeps left) and a seed."""

    study: str
    dataset: str
    objective: str
    seed: int
    settings: Mapping[str, Mapping[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """Plain values with a fixed order of keys (Snakemake compares parameters as they are written)."""
        return {
            "study": self.study,
            "dataset": self.dataset,
            "objective": self.objective,
            "seed": self.seed,
            "settings": {section: dict(values) for section, values in self.settings.items()},
        }


def swept(section: BaseModel) -> dict[str, list[Any]]:
    """The fields of a section that hold a sweep; a field whose own type is a list is none."""
    return {
        name: getattr(section, name)
        for name, field in type(section).model_fields.items()
        if isinstance(getattr(section, name), list) and getattr(field.annotation, "__origin__", None) is not list
    }


def _variants(sections: Mapping[str, BaseModel]) -> Iterator[tuple[str, dict[str, BaseModel]]]:
    """Every combination of the sections' sweeps, with the label ``field=value,…`` of what was swept."""
    axes = [(name, field, values) for name, section in sections.items() for field, values in swept(section).items()]
    for combination in itertools.product(*(values for _, _, values in axes)):
        chosen: dict[str, dict[str, Any]] = {}
        for (name, field, _), value in zip(axes, combination, strict=True):
            chosen.setdefault(name, {})[field] = value
        label = ",".join(f"{field}={written(value)}" for (_, field, _), value in zip(axes, combination, strict=True))
        yield label, {name: section.model_copy(update=chosen.get(name, {})) for name, section in sections.items()}


def written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def datasets(study: Study) -> dict[str, BaseModel]:
    """Label of each data set of a study, with its resolved settings."""
    return {label or study.dataset.source: sections["dataset"] for label, sections in _variants({"dataset": study.dataset})}


def objectives(study: Study) -> dict[str, dict[str, BaseModel]]:
    """Label of each objective of a study, with the resolved settings of the objective and of the training."""
    found = {}
    for name, objective in study.objectives.items():
        sections = {section: getattr(study, section) for section in SECTIONS} | {"objective": objective}
        for label, resolved in _variants(sections):
            found[f"{name},{label}" if label else name] = resolved
    return found


def candidates(study: Study) -> dict[str, list[str]]:
    """The variants of each objective that a sweep made: what selection on the validation split chooses from."""
    found: dict[str, list[str]] = {}
    for label in objectives(study):
        found.setdefault(label.split(",")[0], []).append(label)
    return found


def blocks(study: Study) -> dict[str, list[int]]:
    """Blocks of seeds that one job handles; a block's name tells its seeds, so a block that grew is another block."""
    seeds, size = study.seed_list, study.training.seeds_per_job
    found = {}
    for start in range(0, len(seeds), size):
        block = seeds[start : start + size]
        contiguous = block == list(range(block[0], block[-1] + 1))
        found["seed" + (f"{block[0]}-{block[-1]}" if contiguous and len(block) > 1 else "+".join(map(str, block)))] = block
    return found


def runs_of(name: str, study: Study, dataset: str, objective: str, seeds: Sequence[int]) -> list[Run]:
    """The runs of one data set and one objective of a study.

    Args:
        name: the study's name in the configuration.
        dataset: a label from :func:`datasets`.
        objective: a label from :func:`objectives`.
        seeds: whose runs.
    """
    sections = {"dataset": datasets(study)[dataset], **objectives(study)[objective]}
    settings = {section: model.model_dump(mode="json") for section, model in sections.items()}
    return [Run(name, dataset, objective, seed, settings) for seed in seeds]


def all_runs(name: str, study: Study) -> list[Run]:
    """Every run of a study."""
    return [
        run
        for dataset in datasets(study)
        for objective in objectives(study)
        for run in runs_of(name, study, dataset, objective, study.seed_list)
    ]


def evaluation_settings(study: Study) -> dict[str, list[str]]:
    """The settings of each task that the study's evaluation measures, as its rows name them."""
    probe, knn = study.evaluation.linear_probe, study.evaluation.knn
    return {
        "linear probe": [
            probe_setting(pool, fraction) for pool in probe.label_pools for fraction in sorted(probe.label_fractions)
        ],
        "knn": [f"labels={pool}" for pool in knn.label_pools],
        "mean classifier": [f"labels={pool}" for pool in knn.label_pools],
    }


def probe_setting(pool: str, fraction: float) -> str:
    """How rows name a linear probe: which training images lend their labels, and the share of them."""
    return f"labels={pool}, fraction={fraction:g}"


def source_key(settings: Mapping[str, Any]) -> str:
    """Name of the decoded source of a data set, shared by the studies that read the same files at the same size."""
    reading = {key: settings[key] for key in ("source", "path", "resolution")}
    size = f"-{settings['resolution']}px" if settings["resolution"] else ""
    return f"{settings['source']}{size}-{_digest(reading)[:6]}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def identity(settings: Mapping[str, Mapping[str, Any]], models: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    """The settings that matter for training and differ from the defaults: a new key with a default orphans no run."""
    found: dict[str, dict[str, Any]] = {}
    for section, values in settings.items():
        for key, field in models[section].model_fields.items():
            technical = (field.json_schema_extra or {}).get("technical", False)
            if not technical and key in values and values[key] != field.get_default(call_default_factory=True):
                found.setdefault(section, {})[key] = values[key]
    return found


def _models(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, type[BaseModel]]:
    """The model of each section of a run's settings."""
    from trueneg.study import config

    by_name = {
        model.model_fields["name"].annotation.__args__[0]: model
        for union in (config.EncoderSettings, config.AnyObjective)
        for model in union.__origin__.__args__
    }
    return {
        "dataset": config.DatasetSettings,
        "encoder": by_name[settings["encoder"]["name"]],
        "projection": config.ProjectionSettings,
        "augmentation": config.AugmentationSettings,
        "training": config.TrainingSettings,
        "objective": by_name[settings["objective"]["name"]],
    }


def run_id(run: Run, source_checksum: str) -> str:
    """A short hash of what makes a run what it is: settings, data, seed; not the study that asked for it."""
    settings = {section: dict(values) for section, values in run.settings.items()}
    # The objective's own temperature and the training's are the same setting said in two places.
    own = settings["objective"].pop("temperature", None)
    if own is not None:
        settings["training"]["temperature"] = own
    made_of = {"settings": identity(settings, _models(settings)), "data": source_checksum, "seed": run.seed}
    return _digest(made_of)[:12]
