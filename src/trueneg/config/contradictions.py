"""Checks across the values of a configuration: references to unknown names, settings that exclude each other."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from trueneg.config.configuration import Configuration
from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import corpora, datasets, objectives, swept
from trueneg.config.trained_study import MeasurementSettings, TrainedStudy
from trueneg.specs import tasks
from trueneg.specs.settings import format_value, values_of
from trueneg.specs.sources import UNLABELLED

# Folders under results/ that do not belong to a study.
RESERVED_NAMES = ("runs", "sources", "pairs", "benchmarks", "language_models", "logs", "timings")


def contradictions(configuration: Configuration) -> Iterator[str]:
    """Yield one sentence per contradiction, without the full stop."""
    texts = {name: study for name, study in configuration.studies.items() if isinstance(study, LikelihoodStudy)}
    for name, study in configuration.studies.items():
        if name in RESERVED_NAMES:
            yield f"{name} is not allowed as the name of a study: results/{name} is reserved"
        for kind, check in CHECKS:
            if isinstance(study, kind):
                yield from (f"{name}.{mistake}" for mistake in check(study, texts))


def _language_models(study: LikelihoodStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    """Report unknown language models that provide the class probabilities or initial models."""
    yield from _unknown("eta.language_model", [study.eta.language_model], study.language_models, "language models")
    known = [
        f"{name}/{corpus}/{model}" for name, one in texts.items() for corpus in corpora(one) for model in one.language_models
    ]
    for label, model in study.language_models.items():
        yield from _unknown(f"language_models.{label}.start", [model.start], known, "language models in the given files")


def _comparisons(study: TrainedStudy, texts: Any) -> Iterator[str]:
    """Report unknown names in comparisons and figures."""
    primary, data = study.primary, datasets(study)
    for key in ("treatment", "baseline", "oracle"):
        yield from _unknown(f"primary.{key}", [getattr(primary, key)], study.objectives)
    oracle = study.objectives.get(primary.oracle or "")
    if oracle is not None and oracle.name != "oracle":
        yield f"primary.oracle is {primary.oracle!r}, expected an objective whose name is oracle"
    if primary.treatment == primary.baseline:
        yield f"primary.treatment and primary.baseline are both {primary.baseline!r}, expected two objectives"
    yield from _unknown_dataset("primary.dataset", primary.dataset, data)
    yield from _not_measured("primary", primary, study)
    for name, figure in study.figures:
        yield from _unknown(f"figures.{name}.objectives", getattr(figure, "objectives", ()), objectives(study))
        yield from _unknown(f"figures.{name}.dataset", [getattr(figure, "dataset", None)], data, "data sets")
    for field in study.conditions:
        if field not in swept(study.training):
            value = getattr(study.training, field)
            yield f"conditions contains {field}, but training.{field} is {value}, expected a list of values"


def _images(study: ImageStudy, texts: Any) -> Iterator[str]:
    if study.published is not None:
        yield from _unknown("published.settings", study.published.settings, datasets(study), "data sets")
        yield from _unknown("published.methods", study.published.methods, study.objectives)
    if any(value != 1 for value in values_of(study.dataset.fraction)) and not study.dataset.rare_classes:
        yield "dataset.fraction is below 1, but dataset.rare_classes is empty; list the classes to thin out"
    unlabelled, available = study.dataset.unlabelled or 0, UNLABELLED.get(study.dataset.source, 0)
    if unlabelled > available:
        yield f"dataset.unlabelled is {unlabelled}, expected at most {available}, the unlabelled images of {study.dataset.source}"
    if unlabelled and study.dataset.rare_classes:
        yield "dataset.rare_classes thins out labelled images only; remove it or dataset.unlabelled"


def _pairs(study: ImageTextStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    data: Any = study.dataset
    yield from _unknown("dataset.text", [data.text], texts, "likelihood studies in the given files")
    if data.text in texts:
        reports: Any = texts[data.text].reports
        if reports.source != data.source:
            yield f"dataset.source is {data.source!r}, but the reports of {data.text} come from {reports.source!r}"
        yield from _unknown_dataset("dataset.corpus", data.corpus, corpora(texts[data.text]))
    for number, contrast in enumerate(study.contrasts):
        yield from _unknown(f"contrasts.{number}", (contrast.treatment, contrast.baseline), study.objectives)
    for number, published in enumerate(study.published):
        yield from _not_measured(f"published.{number}.measured", published.measured, study)
        yield from _unknown(f"published.{number}.methods", published.methods, study.objectives)


def _annotations(study: ImageTextStudy, texts: Any) -> Iterator[str]:
    """Report settings that need boxes, labels or known matches that the data do not provide."""
    data: Any = study.dataset
    provided = {"boxes": data.boxed, "labels": data.labelled, "known matches": data.truth_known}
    of_task = {row: task.NEEDS for task in study.TASKS.values() for row in task.ROWS}[study.primary.task]
    needs = {
        f"primary.task {study.primary.task!r}": of_task,
        "figures.overlays": study.figures.overlays and "boxes",
        "evaluation.region_retrieval": study.evaluation.region_retrieval and "boxes",
    }
    for name, objective in study.objectives.items():
        needs[f"objectives.{name}"] = objective.name == "oracle" and "known matches"
        needs[f"objectives.{name}.by"] = "labels" in values_of(getattr(objective, "by", None)) and "labels"
    for key, need in needs.items():
        if need and not provided[need]:
            yield f"{key} needs {need}, which {data.source} does not have; remove or change it"
    if study.primary.oracle is None and data.truth_known:
        yield f"primary.oracle is missing, expected an objective whose name is oracle, as {data.source} has known matches"


CHECKS: tuple[tuple[type, Any], ...] = (
    (LikelihoodStudy, _language_models),
    (TrainedStudy, _comparisons),
    (ImageStudy, _images),
    (ImageTextStudy, _annotations),
    (ImageTextStudy, _pairs),
)


def _not_measured(key: str, given: MeasurementSettings, study: TrainedStudy) -> Iterator[str]:
    """Report a measurement that the study's evaluation does not produce."""
    measured = tasks.measured(study.evaluation, dict(study.TASKS))
    yield from _unknown(f"{key}.task", [given.task], measured, "tasks that evaluation measures")
    for name in ("labels", "fraction", "direction", "k") if given.task in measured else ():
        value, known = getattr(given, name), measured[given.task].get(name, [None])
        if value not in known:
            expected = ", ".join("nothing" if one is None else format_value(one) for one in known)
            yield f"{key}.{name} is {'missing' if value is None else repr(value)}, expected one of: {expected}"


def _unknown(key: str, names: Iterable[str | None], known: Collection[str], kind: str = "objectives") -> Iterator[str]:
    """Report names under a key that are not among the known ones; None refers to nothing."""
    for name in names:
        if name is not None and name not in known:
            yield f"{key} refers to {name!r}, expected one of the {kind}: {', '.join(known) or 'there are none'}"


def _unknown_dataset(key: str, label: str | None, known: Collection[str]) -> Iterator[str]:
    """Report a data set that does not exist, or a missing name if there are several data sets."""
    if label is None and len(known) > 1:
        yield f"{key} is missing, expected one of the data sets: {', '.join(known)}"
    yield from _unknown(key, [label], known, "data sets")
