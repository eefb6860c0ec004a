"""From a configuration file to a checked configuration: every mistake in a sentence, all mistakes at once."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from trueneg.config.configuration import GLOBAL_KEYS, KINDS, Configuration
from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import corpora, datasets, measurable, objectives, swept, written
from trueneg.config.trained_study import MeasurementSettings, TrainedStudy
from trueneg.errors import UserError
from trueneg.legible import one_line
from trueneg.specs import tasks
from trueneg.specs.settings import models_within, values_of

# What pydantic expects, where its own words are no help to the author of a YAML file.
EXPECTED = {
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a mapping"),
    "string_type": "a text",
    "string_pattern_mismatch": "a name of letters, digits and _ . + - that begins with a letter",
}
OTHER_FILE = "if it is in another file, name that file too."
# Folders beside the studies' under results/.
RESERVED_NAMES = ("runs", "sources", "pairs", "benchmarks", "language_models", "logs", "timings")


def load_configuration(raw: Mapping[str, Any], where: str) -> Configuration:
    """Check a configuration as read from YAML or JSON, and tell every mistake at once.

    Args:
        raw: study names to studies, and the global keys.
        where: what to call it in messages, such as the file's path.

    Raises:
        UserError: with one sentence a mistake.
    """
    if not isinstance(raw, Mapping) or not raw:
        raise UserError(f"{where}: found {_shown(raw)}, expected a mapping from study names to studies.")
    studies = {key: value for key, value in raw.items() if key not in GLOBAL_KEYS}
    given = {key: value for key, value in raw.items() if key in GLOBAL_KEYS}
    mistakes: list[str] = []
    configuration = None
    if not studies:
        mistakes.append("it holds no study.")
    try:
        configuration = Configuration.model_validate({"studies": studies, **given})
    except ValidationError as error:
        mistakes += [_sentence(mistake, raw) for mistake in error.errors(include_url=False)]
    if configuration is not None:
        for name, study in configuration.studies.items():
            if name in RESERVED_NAMES:
                mistakes.append(f"{name} cannot be a study's name: results/{name} holds something else.")
            if isinstance(study, TrainedStudy):
                mistakes += [f"{name}.{mistake}" for mistake in contradictions(study)]
        mistakes += _unknown_texts(configuration)
    if mistakes:
        raise UserError("\n".join(f"{where}: {mistake}" for mistake in dict.fromkeys(mistakes)))
    return configuration


def read_configuration(paths: Sequence[str | Path]) -> Configuration:
    """Read configuration files, each holding one or more studies; later files add to earlier ones.

    Raises:
        UserError: if a file is missing, is not YAML, or holds mistakes.
    """
    merged: dict[str, Any] = {}
    for path in paths:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise UserError(f"{path}: cannot be read ({reason}); expected a YAML configuration file.") from error
        try:
            raw = yaml.safe_load(text)
        except MemoryError:  # says nothing of the file
            raise
        except Exception as error:  # a date that does not exist is a ValueError, too deep a nesting a RecursionError
            mark = getattr(error, "problem_mark", None)
            line = f" in line {mark.line + 1}" if mark else ""
            reason = " ".join(str(getattr(error, "problem", None) or error).split()).rstrip(".")
            raise UserError(f"{path}: is not valid YAML{line}: {reason}.") from error
        if not isinstance(raw, Mapping):
            raise UserError(f"{path}: found {_shown(raw)}, expected a mapping from study names to studies.")
        merged |= raw
    return load_configuration(merged, ", ".join(map(str, paths)))


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list) and (len(value) > 4 or any(isinstance(part, (list, Mapping)) for part in value)):
        return "a list"
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _sentence(mistake: Mapping[str, Any], raw: Mapping[str, Any]) -> str:
    """One of pydantic's errors as a sentence: key, found, expected."""
    kind, context, given = mistake["type"], mistake.get("ctx", {}), mistake["input"]
    in_study = mistake["loc"][0] == "studies"
    key = _key(mistake["loc"][1:] if in_study else mistake["loc"], raw, missing=kind == "missing")
    if kind == "missing":
        return f"{key} is missing."
    if kind == "extra_forbidden":
        known = _known_keys(mistake["loc"][:-1])
        close = difflib.get_close_matches(str(mistake["loc"][-1]), known, n=1)
        hint = f" did you mean {close[0]}?" if close else ""
        return f"{key} is not a known key;{hint or ' known here: ' + ', '.join(known) + '.'}"
    if kind == "value_error":
        return f"{key}{context['error']}."  # our own validators continue the key: ".source is …", " needs …"
    if kind == "unknown_kind":
        return f"{key}.kind is {_shown(given.get('kind'))}, expected one of {', '.join(KINDS)}."
    if kind == "union_tag_not_found":
        return f"{key}.{_discriminator(context)} is missing."
    if kind == "union_tag_invalid":
        tag = _discriminator(context)
        found = given.get(tag) if isinstance(given, Mapping) else given
        return f"{key}.{tag} is {_shown(found)}, expected one of {context['expected_tags']}."
    expected = EXPECTED.get(kind) or re.sub(r"^\w+ should (be|have) | after validation", "", mistake["msg"])
    if kind.startswith(("greater", "less")):
        expected = f"a number {expected}"
    return f"{key} is {_shown(given)}, expected {expected}."


def _discriminator(context: Mapping[str, Any]) -> str:
    """The key that tells which model is meant."""
    return str(context["discriminator"]).strip("'")


def _key(location: Sequence[str | int], raw: Any, missing: bool) -> str:
    """The dotted key as the user wrote it: pydantic's names for the branches of a union are no keys of the input."""
    parts, level = [], raw
    for position, part in enumerate(location):
        present = part in level if isinstance(level, Mapping) else isinstance(level, list) and isinstance(part, int)
        if present:
            level = level[part]
        if present or (missing and position == len(location) - 1):
            parts.append(one_line(str(part)))
    return ".".join(parts) or "the configuration"


def _known_keys(location: Sequence[str | int]) -> list[str]:
    """The keys that the model at a location knows."""
    model: Any = Configuration
    for part in location:
        model = _step(model, part)
    return list(getattr(model, "model_fields", {}))


def _step(model: Any, part: str | int) -> Any:
    """The model one level down: a field, or one of the models that a mapping or a union holds."""
    fields = getattr(model, "model_fields", None)
    if fields is not None and part in fields:
        return fields[part].annotation
    for candidate in models_within(model):
        fields = (candidate.model_fields.get(tag) for tag in ("kind", "name", "source"))
        if any(field is not None and getattr(field.annotation, "__args__", (None,))[0] == part for field in fields):
            return candidate
    found = models_within(model)
    return found[0] if len(found) == 1 else model


def _unknown_texts(configuration: Configuration) -> list[str]:
    """Language models that begin with one that does not exist, and image–text studies without the reports that they name."""
    texts = {name: study for name, study in configuration.studies.items() if isinstance(study, LikelihoodStudy)}
    known = [
        f"{name}/{corpus}/{model}" for name, one in texts.items() for corpus in corpora(one) for model in one.language_models
    ]
    found = [
        f"{name}.language_models.{label}.start is {model.start!r}, expected one of {', '.join(sorted(known))}; {OTHER_FILE}"
        for name, study in texts.items()
        for label, model in study.language_models.items()
        if model.start is not None and model.start not in known
    ]
    for name, study in configuration.studies.items():
        data = study.dataset if isinstance(study, ImageTextStudy) else None
        if data is None:
            continue
        if data.text not in texts:
            studies = ", ".join(texts) or "none is given"
            found.append(f"{name}.dataset.text is {data.text!r}, expected a study of kind likelihood ({studies}); {OTHER_FILE}")
            continue
        source = texts[data.text].reports.source
        if source != data.source:
            found.append(f"{name}.dataset.source is {data.source!r}, but the reports of {data.text} are of {source!r}.")
        found += _unknown_dataset(f"{name}.dataset.corpus", data.corpus, corpora(texts[data.text]))
    return found


def contradictions(study: TrainedStudy) -> list[str]:
    """What is wrong with a study beyond the single values: names that point nowhere, settings that exclude each other."""
    found, primary = [], study.primary
    if len(set(study.seed_list)) != len(study.seed_list):
        found.append(f"seeds is {study.seed_list}, expected every seed once.")
    sections = {name: getattr(study, name) for name in ("dataset", *study.SECTIONS)}
    sections |= {f"objectives.{name}": objective for name, objective in study.objectives.items()}
    for section, model in sections.items():
        found += _repeated(section, model)
    for key in ("treatment", "baseline", "oracle"):
        value = getattr(primary, key)
        if value is not None and value not in study.objectives:
            found.append(f"primary.{key} is {value!r}, expected one of the objectives: {', '.join(study.objectives)}.")
    oracle = study.objectives.get(primary.oracle)
    if oracle is not None and oracle.name != "oracle":
        found.append(f"primary.oracle is {primary.oracle!r}, expected an objective whose name is oracle.")
    if primary.treatment == primary.baseline:
        found.append(f"primary.treatment and primary.baseline are both {primary.baseline!r}, expected two objectives.")
    found += _unknown_dataset("primary.dataset", primary.dataset, datasets(study)) + _not_measured("primary", primary, study)
    for field in study.conditions:
        if field not in swept(study.training):
            value = getattr(study.training, field)
            found.append(f"conditions names {field}, but training.{field} is {_shown(value)}, expected a list of values.")
    return found + (_of_images if isinstance(study, ImageStudy) else _of_pairs)(study)


def _not_measured(key: str, given: MeasurementSettings, study: TrainedStudy) -> list[str]:
    """Keys of a measurement that the study's evaluation does not have."""
    measured = measurable(study)
    if given.task not in measured:
        return [f"{key}.task is {given.task!r}, which evaluation does not measure; it measures {', '.join(measured)}."]
    found = []
    for name in ("labels", "fraction", "direction", "k"):
        value, known = getattr(given, name), measured[given.task].get(name, [None])
        if value not in known:
            stated = f"is {value!r}" if value is not None else "is missing"
            expected = ", ".join("nothing" if one is None else written(one) for one in known)
            found.append(f"{key}.{name} {stated}, expected one of: {expected}.")
    return found


def _of_images(study: ImageStudy) -> list[str]:
    found, data, figures = [], datasets(study), study.figures
    for name in ("embedding", "label_fractions"):
        figure = getattr(figures, name)
        if figure is not None:
            found += _unknown_dataset(f"figures.{name}.dataset", figure.dataset or study.primary.dataset, data)
    if figures.embedding is not None:
        found += _strangers("figures.embedding.objectives", figures.embedding.objectives, objectives(study))
    if study.published is not None:
        found += _strangers("published.settings", study.published.settings, data, "data sets")
        found += _strangers("published.methods", study.published.methods, study.objectives)
    if any(value != 1 for value in values_of(study.dataset.fraction)) and not study.dataset.rare_classes:
        found.append("dataset.fraction is below 1, but dataset.rare_classes is empty: name the classes to thin out.")
    return found


def _of_pairs(study: ImageTextStudy) -> list[str]:
    found = _without_truth(study)
    for number, contrast in enumerate(study.contrasts):
        found += _strangers(f"contrasts.{number}", (contrast.treatment, contrast.baseline), study.objectives)
    for name in ("overlays", "similarities"):
        figure = getattr(study.figures, name)
        if figure is not None:
            found += _strangers(f"figures.{name}.objectives", figure.objectives, objectives(study))
    for number, printed in enumerate(study.published):
        found += _not_measured(f"published.{number}.measured", printed.measured, study)
        found += _strangers(f"published.{number}.methods", printed.methods, study.objectives)
    return found


def _without_truth(study: ImageTextStudy) -> list[str]:
    """What asks for boxes, labels or a truth that the data has not."""
    found, data, primary = [], study.dataset, study.primary
    needs = {row: task.NEEDS for task in tasks.PAIRS.values() for row in task.ROWS}[primary.task]
    if not data.boxed:
        needing = {"figures.overlays": study.figures.overlays, "evaluation.region_retrieval": study.evaluation.region_retrieval}
        found += [f"{key} needs boxes, which {data.source} has not; leave it out." for key, given in needing.items() if given]
    if (needs == "boxes" and not data.boxed) or (needs == "labels" and not data.labelled):
        found.append(f"primary.task is {primary.task!r}, which needs {needs}, and {data.source} has none; take a retrieval.")
    for name, objective in study.objectives.items():
        if objective.name == "oracle" and not data.truth_known:
            unknown = f"what is true of {data.source}'s images is not known"
            found.append(f"objectives.{name} is an oracle, but {unknown}; leave it out.")
        if "labels" in values_of(getattr(objective, "by", "text")) and not data.labelled:
            found.append(f"objectives.{name}.by is 'labels', but {data.source} has none; take text, or leave it out.")
    if primary.oracle is None and data.truth_known:
        found.append(f"primary.oracle is missing, expected an objective whose name is oracle: {data.source} knows the truth.")
    return found


def _strangers(key: str, given: Iterable[str], known: Iterable[str], kind: str = "objectives") -> list[str]:
    """Names under a key that are not known."""
    return [f"{key} holds {name!r}, expected some of the {kind}: {', '.join(known)}." for name in given if name not in known]


def _repeated(section: str, model: BaseModel) -> list[str]:
    return [
        f"{section}.{field} is {values}, expected every value of a sweep once."
        for field, values in swept(model).items()
        if len(set(map(written, values))) != len(values)
    ]


def _unknown_dataset(key: str, label: str | None, known: Mapping[str, Any]) -> list[str]:
    if label in known or (label is None and len(known) == 1):
        return []
    return [f"{key} is {'missing' if label is None else repr(label)}, expected one of the data sets: {', '.join(known)}."]
