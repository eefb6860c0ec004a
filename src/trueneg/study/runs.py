"""A study expands into runs (data set × objective × seed); a run is made once and lives in the run store.

The store is a folder with one folder a run, named by the run's id: ``model.safetensors``, ``training.parquet``, ``run.json``.
The record ``run.json`` is written last, so a run that has one is finished.
"""

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from trueneg.errors import UserError
from trueneg.files import file_checksum
from trueneg.study.config import Study

RESERVED_NAMES = ("runs", "sources", "logs", "timings")  # folders beside the studies' under results/
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


def _swept(section: BaseModel) -> dict[str, list[Any]]:
    """The fields of a section that hold a sweep; a field whose own type is a list is none."""
    return {
        name: getattr(section, name)
        for name, field in type(section).model_fields.items()
        if isinstance(getattr(section, name), list) and getattr(field.annotation, "__origin__", None) is not list
    }


def _variants(sections: Mapping[str, BaseModel]) -> Iterator[tuple[str, dict[str, BaseModel]]]:
    """Every combination of the sections' sweeps, with the label ``field=value,…`` of what was swept."""
    axes = [(name, field, values) for name, section in sections.items() for field, values in _swept(section).items()]
    for combination in itertools.product(*(values for _, _, values in axes)):
        chosen: dict[str, dict[str, Any]] = {}
        for (name, field, _), value in zip(axes, combination, strict=True):
            chosen.setdefault(name, {})[field] = value
        label = ",".join(f"{field}={_written(value)}" for (_, field, _), value in zip(axes, combination, strict=True))
        yield label, {name: section.model_copy(update=chosen.get(name, {})) for name, section in sections.items()}


def _written(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def datasets(study: Study) -> dict[str, BaseModel]:
    """Label of each data set of a study, with its resolved settings."""
    return {
        label or study.dataset.source: sections["dataset"] for label, sections in _variants({"dataset": study.dataset})
    }


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


def contradictions(study: Study) -> list[str]:
    """What is wrong with a study beyond the single values: names that point nowhere, settings that exclude each other."""
    found = []
    if len(set(study.seed_list)) != len(study.seed_list):
        found.append(f"seeds is {study.seed_list}, expected every seed once.")
    for section, model in {name: getattr(study, name) for name in ("dataset", *SECTIONS)}.items():
        found += _repeated(section, model)
    for name, objective in study.objectives.items():
        found += _repeated(f"objectives.{name}", objective)
    data, variants, primary = datasets(study), objectives(study), study.primary
    for key, value in (("treatment", primary.treatment), ("baseline", primary.baseline), ("oracle", primary.oracle)):
        if value not in variants and value not in study.objectives:
            found.append(f"primary.{key} is {value!r}, expected one of the objectives: {', '.join(variants)}.")
    oracle = study.objectives.get(primary.oracle.split(",")[0])
    if oracle is not None and oracle.name != "oracle":
        found.append(f"primary.oracle is {primary.oracle!r}, expected an objective whose name is oracle.")
    if primary.treatment == primary.baseline:
        found.append(f"primary.treatment and primary.baseline are both {primary.baseline!r}, expected two objectives.")
    found += _unknown_dataset("primary.dataset", primary.dataset, data)
    if primary.setting not in evaluation_settings(study)[primary.task]:
        expected = "; ".join(evaluation_settings(study)[primary.task])
        found.append(f"primary.setting is {primary.setting!r}, expected one of: {expected}.")
    figures = study.figures
    if figures.embedding is not None:
        found += _unknown_dataset("figures.embedding.dataset", figures.embedding.dataset, data, default=primary.dataset)
        for label in figures.embedding.objectives:
            if label not in variants:
                found.append(
                    f"figures.embedding.objectives holds {label!r}, expected some of the objectives: {', '.join(variants)}."
                )
    if figures.label_fractions is not None:
        found += _unknown_dataset(
            "figures.label_fractions.dataset", figures.label_fractions.dataset, data, default=primary.dataset
        )
    needs_rare = any(value != 1 for value in _as_list(study.dataset.fraction))
    if needs_rare and not study.dataset.rare_classes:
        found.append("dataset.fraction is below 1, but dataset.rare_classes is empty: name the classes to thin out.")
    return found


def _repeated(section: str, model: BaseModel) -> list[str]:
    return [
        f"{section}.{field} is {values}, expected every value of a sweep once."
        for field, values in _swept(model).items()
        if len(set(map(_written, values))) != len(values)
    ]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _unknown_dataset(key: str, label: str | None, known: Mapping[str, Any], default: str | None = None) -> list[str]:
    label = label or default
    if label is None and len(known) > 1:
        return [f"{key} is missing, expected one of the data sets: {', '.join(known)}."]
    if label is not None and label not in known:
        return [f"{key} is {label!r}, expected one of the data sets: {', '.join(known)}."]
    return []


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


class RunStore:
    """The folder of runs, ``results/runs``: who is finished, and the files of each.

    Args:
        path: the folder; made when the first run is.
    """

    RECORD, MODEL, CURVES = "run.json", "model.safetensors", "training.parquet"

    def __init__(self, path: str | Path):
        self.path = Path(path)

    def folder(self, identifier: str) -> Path:
        """The folder of a run, whether it exists or not."""
        return self.path / identifier

    def state(self, identifier: str) -> str:
        """``"finished"``, ``"begun"`` or ``"missing"``."""
        folder = self.folder(identifier)
        if (folder / self.RECORD).is_file() and (folder / self.MODEL).is_file():
            return "finished"
        return "begun" if folder.is_dir() else "missing"

    def record(self, identifier: str) -> dict[str, Any]:
        """What made a finished run.

        Raises:
            UserError: if there is no such run, or its record is broken.
        """
        path = self.folder(identifier) / self.RECORD
        try:
            return json.loads(path.read_text())
        except FileNotFoundError as error:
            raise UserError(f"{path}: there is no finished run {identifier}; train it first.") from error
        except ValueError as error:
            raise UserError(f"{path}: is not valid JSON. Remove its folder to have the run trained anew.") from error

    def records(self) -> dict[str, dict[str, Any]]:
        """The records of all finished runs, by id."""
        return {path.parent.name: self.record(path.parent.name) for path in sorted(self.path.glob(f"*/{self.RECORD}"))}

    @contextlib.contextmanager
    def owned(self, identifier: str) -> Iterator[Path]:
        """Hold a run for writing: one process at a time; the kernel frees it when the process dies.

        Raises:
            UserError: if another process holds it.
        """
        folder = self.folder(identifier)
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.seek(0)
                owner = lock.read().strip() or "unknown"
                raise UserError(
                    f"{folder}: is being written by process {owner}; wait for it to end, or stop it, and start again."
                ) from error
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield folder


def read_manifest(path: str | Path, store: RunStore) -> list[dict[str, Any]]:
    """The runs that a manifest lists, each with its seed, id and model file, after comparing the checksums.

    Raises:
        UserError: if a model is missing or is not the one that the manifest was written for.
    """
    manifest = json.loads(Path(path).read_text())
    for run in manifest["runs"]:
        run["model"] = store.folder(run["id"]) / RunStore.MODEL
        if not run["model"].is_file():
            raise UserError(
                f"{run['model']}: is missing, but {path} lists it. Remove the manifest to have the run trained again."
            )
        if file_checksum(run["model"]) != run["checksum"]:
            raise UserError(
                f"{run['model']}: its checksum is not the one in {path}. Remove the manifest to have it written anew."
            )
    return manifest["runs"]
