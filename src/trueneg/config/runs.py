"""A study expands into runs: data set × objective × seed, in blocks of seeds that one job handles."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextEvaluationSettings, ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.trained_study import TrainedStudy

RunSettings = Mapping[str, Mapping[str, Any]]  # by section


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


def training_kind(settings: RunSettings) -> str:
    """The kind of training that a run's settings name; without a name it is of images."""
    return settings["training"].get("kind", "images")


def swept(section: BaseModel) -> dict[str, list[Any]]:
    """The fields of a section that hold a sweep; a field whose own type is a list is none."""
    return {
        name: getattr(section, name)
        for name, field in type(section).model_fields.items()
        if isinstance(getattr(section, name), list) and getattr(field.annotation, "__origin__", None) is not list
    }


def _variants(
    sections: Mapping[str, BaseModel], counts: Callable[[str, str], bool]
) -> Iterator[tuple[str, dict[str, BaseModel]]]:
    """Every combination of the sections' sweeps that count, with the label ``field=value,…`` of what was swept.

    Args:
        sections: models by name.
        counts: whether the sweep of a section's field is meant.
    """
    axes = [
        (name, field, values)
        for name, section in sections.items()
        for field, values in swept(section).items()
        if counts(name, field)
    ]
    for combination in itertools.product(*(values for _, _, values in axes)):
        chosen: dict[str, dict[str, Any]] = {}
        for (name, field, _), value in zip(axes, combination, strict=True):
            chosen.setdefault(name, {})[field] = value
        label = ",".join(f"{field}={written(value)}" for (_, field, _), value in zip(axes, combination, strict=True))
        yield label, {name: section.model_copy(update=chosen.get(name, {})) for name, section in sections.items()}


def written(value: Any) -> str:
    """A value of a sweep as it stands in labels: numbers as short as they can be told."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _is_condition(study: TrainedStudy) -> Callable[[str, str], bool]:
    """Whether a sweep's values stand side by side as data sets do; those of the others are candidates to select from."""
    return lambda section, field: section == "dataset" or (section == "training" and field in study.conditions)


def _conditions(study: TrainedStudy) -> dict[str, dict[str, BaseModel]]:
    sections = {"dataset": study.dataset, "training": study.training}
    return {label or study.dataset.source: resolved for label, resolved in _variants(sections, _is_condition(study))}


def datasets(study: TrainedStudy) -> dict[str, BaseModel]:
    """Label of each data set of a study, or of each condition on it, with the resolved settings of the data."""
    return {label: resolved["dataset"] for label, resolved in _conditions(study).items()}


def corpora(study: LikelihoodStudy) -> dict[str, BaseModel]:
    """Label of each corpus of a likelihood study, with the resolved settings of its reports."""
    variants = _variants({"reports": study.reports}, lambda section, field: True)
    return {label or study.reports.source: sections["reports"] for label, sections in variants}


def negative_counts(study: TrainedStudy) -> dict[str, int]:
    """N at each label of :func:`datasets`, where the batch size B is a condition: 2B − 2 of two views, B − 1 of pairs."""
    if "batch_size" not in study.conditions:
        return {}
    views = 2 if isinstance(study, ImageStudy) else 1
    return {label: views * (resolved["training"].batch_size - 1) for label, resolved in _conditions(study).items()}


def objectives(study: TrainedStudy) -> dict[str, dict[str, BaseModel]]:
    """Label of each objective of a study, with the resolved settings of the objective and of the training.

    Sweeps that are conditions stay as they are: :func:`runs_of` resolves them.
    """
    is_condition, found = _is_condition(study), {}

    def is_candidate(section: str, field: str) -> bool:
        return not is_condition(section, field)

    for name, objective in study.objectives.items():
        for label, resolved in _variants(study.sections_of(objective), is_candidate):
            found[f"{name},{label}" if label else name] = resolved
    return found


def candidates(study: TrainedStudy) -> dict[str, list[str]]:
    """The variants of each objective that a sweep made: what selection on the validation split chooses from."""
    found: dict[str, list[str]] = {}
    for label in objectives(study):
        found.setdefault(label.split(",")[0], []).append(label)
    return found


def blocks(study: TrainedStudy) -> dict[str, list[int]]:
    """Blocks of seeds that one job handles; a block's name tells its seeds, so a block that grew is another block."""
    seeds, size = study.seed_list, study.training.seeds_per_job
    found = {}
    for start in range(0, len(seeds), size):
        block = seeds[start : start + size]
        contiguous = block == list(range(block[0], block[-1] + 1))
        found["seed" + (f"{block[0]}-{block[-1]}" if contiguous and len(block) > 1 else "+".join(map(str, block)))] = block
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
    condition, sections = _conditions(study)[dataset], objectives(study)[objective]
    # An objective that trains nothing has no sweep there.
    conditions = [field for field in study.conditions if field in swept(sections["training"])]
    chosen = {field: getattr(condition["training"], field) for field in conditions}
    sections |= {"dataset": condition["dataset"], "training": sections["training"].model_copy(update=chosen)}
    settings = {section: model.model_dump(mode="json") for section, model in sections.items()}
    return [Run(name, dataset, objective, seed, settings) for seed in seeds]


def all_runs(name: str, study: TrainedStudy) -> list[Run]:
    """Every run of a study."""
    return [
        run
        for dataset in datasets(study)
        for objective in objectives(study)
        for run in runs_of(name, study, dataset, objective, study.seed_list)
    ]


def evaluation_settings(study: TrainedStudy) -> dict[str, list[str]]:
    """The settings of each task that the study's evaluation measures, as its rows name them."""
    if isinstance(study, ImageTextStudy):
        return _pair_measurements(study.evaluation)
    probe, knn = study.evaluation.linear_probe, study.evaluation.knn
    return {
        "linear probe": [
            probe_setting(pool, fraction) for pool in probe.label_pools for fraction in sorted(probe.label_fractions)
        ],
        "knn": [f"labels={pool}" for pool in knn.label_pools],
        "mean classifier": [f"labels={pool}" for pool in knn.label_pools],
    }


def _pair_measurements(evaluation: ImageTextEvaluationSettings) -> dict[str, list[str]]:
    found = {
        "zero-shot": [""],
        "retrieval sentence": ["relevant=report", "relevant=truth"],
        "retrieval report": ["relevant=report"],
        "grounding": [""],
    }
    if evaluation.region_retrieval is not None:
        found["region retrieval"] = [f"relevant={relevant}" for relevant in ("pair", "pair, ties=for", "sentence", "truth")]
    if evaluation.precision is not None:
        found["precision"] = ["image to image", "text to image", ""]
    if evaluation.chexpert_8x200 is not None:
        found["chexpert 8x200"] = ["image to image", "text to image", ""]
    trained = ("linear probe", "fine-tuning", "augmented linear probe")
    for task in trained:
        settings = getattr(evaluation, task.replace(" ", "_").replace("-", "_"))
        if settings is not None:
            found[task] = [f"fraction={fraction:g}" for fraction in settings.fractions]
    return found


def probe_setting(pool: str, fraction: float) -> str:
    """How rows name a linear probe: which training images lend their labels, and the share of them."""
    return f"labels={pool}, fraction={fraction:g}"


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
