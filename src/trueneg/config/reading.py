"""From a configuration file to a checked configuration: every mistake in a sentence, all mistakes at once."""

import difflib
from collections.abc import Mapping, Sequence
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
        mistakes += _unknown_beginnings(configuration) + _unknown_texts(configuration)
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
    expected = {
        "greater_than": "a number above {gt}",
        "greater_than_equal": "a number of at least {ge}",
        "less_than": "a number below {lt}",
        "less_than_equal": "a number of at most {le}",
        "finite_number": "a finite number",
        "literal_error": "{expected}",
        "int_type": "an integer",
        "int_from_float": "an integer",
        "float_type": "a number",
        "bool_type": "true or false",
        "string_type": "a text",
        "list_type": "a list",
        "dict_type": "a mapping",
        "model_type": "a mapping",
        "model_attributes_type": "a mapping",
        "string_too_short": "a text that is not empty",
        "string_too_long": "at most {max_length} characters",
        "string_pattern_mismatch": "a name of letters, digits and _ . + - that begins with a letter",
        "too_short": "at least {min_length} of them",
    }.get(kind)
    expected = expected.format(**context) if expected else mistake["msg"].lower().removeprefix("input should be ")
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


def _unknown_beginnings(configuration: Configuration) -> list[str]:
    """Language models that begin with another study's, where there is no such study, corpus or model."""
    texts = {name: study for name, study in configuration.studies.items() if isinstance(study, LikelihoodStudy)}
    known = {
        f"{name}/{corpus}/{model}"
        for name, study in texts.items()
        for corpus in corpora(study)
        for model in study.language_models
    }
    return [
        f"{name}.language_models.{label}.start is {model.start!r}, expected one of {', '.join(sorted(known))}; "
        "if it is in another file, name that file too."
        for name, study in texts.items()
        for label, model in study.language_models.items()
        if model.start is not None and model.start not in known
    ]


def _unknown_texts(configuration: Configuration) -> list[str]:
    """Image–text studies whose reports are no corpus of a likelihood study, or not one of the source that they name."""
    texts = {name: study for name, study in configuration.studies.items() if isinstance(study, LikelihoodStudy)}
    found = []
    for name, study in configuration.studies.items():
        if not isinstance(study, ImageTextStudy):
            continue
        data = study.dataset
        if data.text not in texts:
            known = ", ".join(texts) or "none is given"
            found.append(
                f"{name}.dataset.text is {data.text!r}, expected a study of kind likelihood ({known}); if it is in another file, "
                "name that file too."
            )
            continue
        source = texts[data.text].reports.source
        if source != data.source:
            found.append(f"{name}.dataset.source is {data.source!r}, but the reports of {data.text} are of {source!r}.")
        found += [f"{name}.{mistake}" for mistake in _unknown_dataset("dataset.corpus", data.corpus, corpora(texts[data.text]))]
    return found


def contradictions(study: TrainedStudy) -> list[str]:
    """What is wrong with a study beyond the single values: names that point nowhere, settings that exclude each other."""
    found = []
    if len(set(study.seed_list)) != len(study.seed_list):
        found.append(f"seeds is {study.seed_list}, expected every seed once.")
    for section, model in {name: getattr(study, name) for name in ("dataset", *study.SECTIONS)}.items():
        found += _repeated(section, model)
    for name, objective in study.objectives.items():
        found += _repeated(f"objectives.{name}", objective)
    data, primary = datasets(study), study.primary
    for key, value in (("treatment", primary.treatment), ("baseline", primary.baseline), ("oracle", primary.oracle)):
        if value is not None and value not in study.objectives:
            found.append(f"primary.{key} is {value!r}, expected one of the objectives: {', '.join(study.objectives)}.")
    oracle = study.objectives.get(primary.oracle)
    if oracle is not None and oracle.name != "oracle":
        found.append(f"primary.oracle is {primary.oracle!r}, expected an objective whose name is oracle.")
    if primary.treatment == primary.baseline:
        found.append(f"primary.treatment and primary.baseline are both {primary.baseline!r}, expected two objectives.")
    found += _unknown_dataset("primary.dataset", primary.dataset, data)
    found += _not_measured("primary", primary, study)
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
    found = []
    data, figures = datasets(study), study.figures
    if figures.embedding is not None:
        found += _unknown_dataset("figures.embedding.dataset", figures.embedding.dataset, data, default=study.primary.dataset)
        found += _unknown_objectives("figures.embedding", figures.embedding.objectives, study)
    if figures.label_fractions is not None:
        found += _unknown_dataset(
            "figures.label_fractions.dataset", figures.label_fractions.dataset, data, default=study.primary.dataset
        )
    if study.published is not None:
        strangers, known = [label for label in study.published.settings if label not in data], ", ".join(data)
        found += [f"published.settings holds {label!r}, expected some of the data sets: {known}." for label in strangers]
        known = ", ".join(study.objectives)
        strangers = [label for label in study.published.methods if label not in study.objectives]
        found += [f"published.methods holds {label!r}, expected some of the objectives: {known}." for label in strangers]
    needs_rare = any(value != 1 for value in values_of(study.dataset.fraction))
    if needs_rare and not study.dataset.rare_classes:
        found.append("dataset.fraction is below 1, but dataset.rare_classes is empty: name the classes to thin out.")
    return found


def _of_pairs(study: ImageTextStudy) -> list[str]:
    found = _without_truth(study)
    if not study.dataset.boxed:
        needing = {"figures.overlays": study.figures.overlays, "evaluation.region_retrieval": study.evaluation.region_retrieval}
        lacking = f"needs boxes, which {study.dataset.source} has not; leave it out."
        found += [f"{key} {lacking}" for key, given in needing.items() if given]
        if study.primary.task in _needing("boxes"):
            found.append(f"primary.task is {study.primary.task!r}, which needs boxes, and {study.dataset.source} has none.")
    for number, contrast in enumerate(study.contrasts):
        strangers = [name for name in (contrast.treatment, contrast.baseline) if name not in study.objectives]
        known = ", ".join(study.objectives)
        found += [f"contrasts.{number} names {name!r}, expected some of the objectives: {known}." for name in strangers]
    for name in ("overlays", "similarities"):
        wanted = getattr(study.figures, name)
        if wanted is not None:
            found += _unknown_objectives(f"figures.{name}", wanted.objectives, study)
    for number, printed in enumerate(study.published):
        known = ", ".join(study.objectives)
        found += _not_measured(f"published.{number}.measured", printed.measured, study)
        strangers = [label for label in printed.methods if label not in study.objectives]
        found += [f"published.{number}.methods holds {label!r}, expected some of the objectives: {known}." for label in strangers]
    return found


def _without_truth(study: ImageTextStudy) -> list[str]:
    """Objectives and a primary contrast that ask for labels or a truth that the data has not."""
    found, data = [], study.dataset
    for name, objective in study.objectives.items():
        if objective.name == "oracle" and not data.truth_known:
            unknown = f"what is true of {data.source}'s images is not known"
            found.append(f"objectives.{name} is an oracle, but {unknown}; leave it out.")
        if "labels" in values_of(getattr(objective, "by", "text")) and not data.labelled:
            found.append(f"objectives.{name}.by is 'labels', but {data.source} has none; take text, or leave it out.")
    if study.primary.oracle is None and data.truth_known:
        found.append(f"primary.oracle is missing, expected an objective whose name is oracle: {data.source} knows the truth.")
    task = study.primary.task
    if task in _needing("labels") and not data.labelled:
        found.append(f"primary.task is {task!r}, which needs labels, and {data.source} has none; take a retrieval.")
    return found


def _needing(what: str) -> list[str]:
    """The tasks of image–text studies whose data must have labels, or boxes."""
    return [row for task in tasks.PAIRS.values() if what == task.NEEDS for row in task.ROWS]


def _unknown_objectives(key: str, given: Sequence[str], study: TrainedStudy) -> list[str]:
    variants = objectives(study)
    return [
        f"{key}.objectives holds {label!r}, expected some of the objectives: {', '.join(variants)}."
        for label in given
        if label not in variants
    ]


def _repeated(section: str, model: BaseModel) -> list[str]:
    return [
        f"{section}.{field} is {values}, expected every value of a sweep once."
        for field, values in swept(model).items()
        if len(set(map(written, values))) != len(values)
    ]


def _unknown_dataset(key: str, label: str | None, known: Mapping[str, Any], default: str | None = None) -> list[str]:
    label = label or default
    if label is None and len(known) > 1:
        return [f"{key} is missing, expected one of the data sets: {', '.join(known)}."]
    if label is not None and label not in known:
        return [f"{key} is {label!r}, expected one of the data sets: {', '.join(known)}."]
    return []
