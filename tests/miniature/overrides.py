"""Make a miniature of a shipped section by overriding listed keys."""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from trueneg.config.configuration import Configuration
from trueneg.config.reading import load_configuration
from trueneg.config.runs import swept
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.pairs.base import SEED
from trueneg.specs.settings import format_value

# Values of a miniature by kind of study and dotted key: paths, sizes of images and networks,
# lengths and counts. `*` is any name. [word]: only where the section's name or source is the word.
# A final ?: only where the study states the key. Everything else is as shipped, except seeds and
# sweeps: two values are kept, and more if the file names them. Published numbers are kept for the
# conditions that are kept.
OVERRIDES: dict[str, dict[str, Any]] = {
    "images": {
        "dataset.resolution": 8,
        "dataset.images_per_class": 32,
        "dataset.unlabelled?": 64,
        "encoder": {"name": "small_resnet", "width": 4},
        "projection.hidden": 16,
        "projection.dimensions": 8,
        "training.epochs?": 1,
        "training.updates?": 10,
        "training.batch_size": 32,
        "training.threads": 1,
        "training.seeds_per_job": 8,
        "evaluation.linear_probe.epochs": 2,
        "evaluation.augmented_linear_probe.epochs": 1,
        "figures.embedding.images": 100,
    },
    "image-text": {
        "dataset.resolution": 32,
        "encoder[small]": {"name": "small", "width": 4},
        "encoder[resnet18]": {"name": "small", "width": 4},
        "encoder[resnet50]": {"name": "small", "width": 4},
        "encoder[open_clip].model": "hub/tiny.json",
        "encoder[open_clip].weights": "hub/tiny.safetensors",
        "encoder[open_clip].train?": "all",  # a ResNet has no blocks
        "encoder[timm].model": "test_efficientnet",
        "encoder[timm].weights": "none",
        "encoder[timm].resolution?": 32,
        "text_encoder[small].hidden": 16,
        "text_encoder[small].layers": 1,
        "text_encoder[small].heads": 2,
        "text_encoder[small].vocabulary": 400,
        "text_encoder[pretrained].model": "hub/bert",
        "text_encoder[open_clip].model": "hub/tiny.json",
        "text_encoder[open_clip].weights": "hub/tiny.safetensors",
        "text_encoder[open_clip].train?": "all",
        "text_encoder[sentence_transformers].model": "hub/bert",
        "objectives.*.encoder[resnet50]": {"name": "small", "width": 4},
        "objectives.*.text_encoder[small].hidden": 16,
        "objectives.*.text_encoder[small].layers": 1,
        "objectives.*.text_encoder[small].heads": 2,
        "objectives.*.text_encoder[small].vocabulary": 400,
        "objectives.*.text_encoder[pretrained].model": "hub/bert",
        "projection.dimensions": 16,
        "training.epochs?": 1,
        "training.updates?": 4,
        "training.warmup_updates": 1,
        "training.batch_size": 16,
        "training.seeds_per_job": 8,
        "evaluation.linear_probe.epochs": 2,
        "evaluation.augmented_linear_probe.epochs": 1,
        "evaluation.fine_tuning.epochs": 1,
    },
    "text": {
        "text_encoder.model": "hub/bert",
        "text_encoder.maximum_tokens?": 32,
        "objectives.*.guide.text_encoder.model": "hub/bert",
        "objectives.*.guide.text_encoder.maximum_tokens?": 32,
        "dataset.labels.train": 4,
        "dataset.labels.validation_unseen": 2,
        "dataset.labels.test_unseen": 2,
        "dataset.labels.per_run": 3,
        "training.updates": 4,
        "training.batch_size": 16,
        "training.seeds_per_job": 8,
    },
    "likelihood": {
        "reports[phantom].reports": 200,
        "reports[open_i].path": "data/open_i_reports",
        "language_models.*.model?": "hub/bert",
        "language_models.*.epochs": 1,
        "language_models.*.hidden": 16,
        "language_models.*.layers": 1,
        "language_models.*.vocabulary": 300,
        "processes": 1,
    },
    "theory": {},
}
SEEDS = 2
VARIANTS = 2


def miniatures(file: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Return the miniature sections of a configuration file by name.

    Args:
        file: the configuration as read from YAML.
        where: its path, for messages.

    Raises:
        UserError: if the file is not a valid configuration.
    """
    configuration = load_configuration(file, where)
    # resolves YAML anchors
    found = {name: json.loads(json.dumps(section)) for name, section in file.items()}
    printed = [
        (name, table, table.pop("settings"))
        for name, section in found.items()
        for table in section.get("published", ())
        if "settings" in table
    ]
    text = json.dumps(found)
    for section in found.values():
        if "seeds" in section:
            seeds = section["seeds"]
            section["seeds"] = seeds[:SEEDS] if isinstance(seeds, list) else min(seeds, SEEDS)
    for name, section in found.items():
        _thin(section, name, configuration, text, _corpora(found, name))
        for key, value in OVERRIDES[section.get("kind", "images")].items():
            _override(
                section, key.removesuffix("?").split("."), value, only_stated=key.endswith("?")
            )
    for name, table, settings in printed:
        kept = _labels(found[name])
        table["settings"] = {label: setting for label, setting in settings.items() if label in kept}
    return found


def _corpora(found: Mapping[str, Any], name: str) -> set[int]:
    """Return the seeds whose corpora of the likelihood section `name` are read by studies with one
    corpus per seed.
    """
    readers = [
        section for section in found.values() if section.get("dataset", {}).get("text") == name
    ]
    own = [section for section in readers if SEED in (section["dataset"].get("corpus") or "")]
    return {
        seed
        for section in own
        for seed in (*section["seeds"], *section.get("tuning", {}).get("seeds", ()))
    }


def _labels(section: Mapping[str, Any]) -> set[str]:
    """Return labels of the values of the section's sweeps, such as ``batch_size=64``."""
    parts = (part for part in section.values() if isinstance(part, dict))
    swept = (
        (key, values) for part in parts for key, values in part.items() if isinstance(values, list)
    )
    return {f"{key}={format_value(value)}" for key, values in swept for value in values}


def _thin(
    section: dict[str, Any], name: str, configuration: Configuration, text: str, corpora: set[int]
) -> None:
    """Shorten the section's sweeps, but keep what a label in the file names, such as
    ``batch_size=64``, and `corpora`.

    In a tuned study all objectives keep equally many configurations: two values of one setting, one
    value of the others.
    """
    study = configuration.studies[name]
    models = (
        {key: getattr(study, key) for key in ("dataset", *study.SECTIONS)}
        if isinstance(study, TrainedStudy)
        else {}
    )
    places = [(section[key], model) for key, model in models.items() if key in section]
    if isinstance(study, TrainedStudy):
        places += [
            (stated, study.objectives[label]) for label, stated in section["objectives"].items()
        ]
    elif hasattr(study, "reports"):
        places += [(section["reports"], study.reports)]
    for stated, model in places:
        is_tuned = isinstance(study, TrainedStudy) and study.tuning is not None
        for place, (field, values) in enumerate(swept(model).items()):
            named = [
                bool(re.search(rf"\b{field}={re.escape(format_value(value))}(?![\w.])", text))
                for value in values
            ]
            named = [
                known or (field == "seed" and value in corpora)
                for known, value in zip(named, values, strict=True)
            ]
            kept = 1 if is_tuned and place else VARIANTS
            missing = max(kept - sum(named), 0)
            others = [index for index, known in enumerate(named) if not known][:missing]
            *outer, key = field.split(".")
            owner = functools.reduce(dict.__getitem__, outer, stated)
            owner[key] = [
                value for index, value in enumerate(owner[key]) if named[index] or index in others
            ]


def _override(section: dict[str, Any], keys: list[str], value: Any, *, only_stated: bool) -> None:
    """Set a value at every place that matches its key, except in sweeps of several values."""
    first, _, word = keys[0].removesuffix("]").partition("[")
    for key in [*section] if first == "*" else [first]:
        stated = section.get(key)
        if word and not (
            isinstance(stated, dict) and word in (stated.get("name"), stated.get("source"))
        ):
            continue
        if len(keys) > 1:
            if isinstance(stated, dict):
                _override(stated, keys[1:], value, only_stated=only_stated)
        elif isinstance(stated, list):
            if len(stated) == 1:
                section[key] = [value]
        elif key in section or not only_stated:
            section[key] = value


def differences(shipped: Any, miniature: Any, key: str = "") -> Iterator[str]:
    """Yield the dotted keys of the differences between two configurations."""
    if isinstance(shipped, dict) and isinstance(miniature, dict):
        for name in {**shipped, **miniature}:
            yield from differences(
                shipped.get(name), miniature.get(name), f"{key}.{name}" if key else name
            )
    elif shipped != miniature:
        yield key
