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

OTHER_FILE = "if it is in another file, name that file too"
# Folders under results/ that do not belong to a study.
RESERVED_NAMES = ("runs", "sources", "pairs", "benchmarks", "language_models", "logs", "timings")


def contradictions(configuration: Configuration) -> Iterator[str]:
    """Yield one sentence per contradiction, without the full stop."""
    texts = {name: study for name, study in configuration.studies.items() if isinstance(study, LikelihoodStudy)}
    for name, study in configuration.studies.items():
        found: list[str] = []
        if name in RESERVED_NAMES:
            yield f"{name} cannot be a study's name: results/{name} holds something else"
        if isinstance(study, LikelihoodStudy):
            found += _unknown_language_models(study, texts)
        if isinstance(study, TrainedStudy):
            found += _of_trained(study)
        if isinstance(study, ImageStudy):
            found += _of_images(study)
        if isinstance(study, ImageTextStudy):
            found += [*_without_truth(study), *_of_pairs(study), *_unknown_text(study.dataset, texts)]
        yield from (f"{name}.{mistake}" for mistake in found)


def _unknown_language_models(study: LikelihoodStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    """Report unknown language models that are named for the class probabilities or as a start."""
    wanted = study.eta.language_model
    yield from _unknown("eta.language_model", [] if wanted is None else [wanted], study.language_models, "language models")
    known = [
        f"{name}/{corpus}/{model}" for name, one in texts.items() for corpus in corpora(one) for model in one.language_models
    ]
    for label, model in study.language_models.items():
        if model.start is not None and model.start not in known:
            expected = ", ".join(sorted(known))
            yield f"language_models.{label}.start is {model.start!r}, expected one of {expected}; {OTHER_FILE}"


def _unknown_text(data: Any, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    """Report an image–text data set whose reports are not read by any likelihood study."""
    if data.text not in texts:
        studies = ", ".join(texts) or "none is given"
        yield f"dataset.text is {data.text!r}, expected a study of kind likelihood ({studies}); {OTHER_FILE}"
        return
    reports: Any = texts[data.text].reports
    if reports.source != data.source:
        yield f"dataset.source is {data.source!r}, but the reports of {data.text} are of {reports.source!r}"
    yield from _unknown_dataset("dataset.corpus", data.corpus, corpora(texts[data.text]))


def _of_trained(study: TrainedStudy) -> Iterator[str]:
    primary, data = study.primary, datasets(study)
    for key, name in (("treatment", primary.treatment), ("baseline", primary.baseline), ("oracle", primary.oracle)):
        yield from _unknown(f"primary.{key}", [] if name is None else [name], study.objectives)
    oracle = study.objectives.get(primary.oracle or "")
    if oracle is not None and oracle.name != "oracle":
        yield f"primary.oracle is {primary.oracle!r}, expected an objective whose name is oracle"
    if primary.treatment == primary.baseline:
        yield f"primary.treatment and primary.baseline are both {primary.baseline!r}, expected two objectives"
    yield from _unknown_dataset("primary.dataset", primary.dataset, data)
    yield from _not_measured("primary", primary, study)
    for name, figure in study.figures:
        yield from _unknown(f"figures.{name}.objectives", getattr(figure, "objectives", ()), objectives(study))
        yield from _unknown(f"figures.{name}.dataset", filter(None, [getattr(figure, "dataset", None)]), data, "data sets")
    for field in study.conditions:
        if field not in swept(study.training):
            value = getattr(study.training, field)
            yield f"conditions names {field}, but training.{field} is {value}, expected a list of values"


def _of_images(study: ImageStudy) -> Iterator[str]:
    if study.published is not None:
        yield from _unknown("published.settings", study.published.settings, datasets(study), "data sets")
        yield from _unknown("published.methods", study.published.methods, study.objectives)
    if any(value != 1 for value in values_of(study.dataset.fraction)) and not study.dataset.rare_classes:
        yield "dataset.fraction is below 1, but dataset.rare_classes is empty: name the classes to thin out"


def _of_pairs(study: ImageTextStudy) -> Iterator[str]:
    for number, contrast in enumerate(study.contrasts):
        yield from _unknown(f"contrasts.{number}", (contrast.treatment, contrast.baseline), study.objectives)
    for number, printed in enumerate(study.published):
        yield from _not_measured(f"published.{number}.measured", printed.measured, study)
        yield from _unknown(f"published.{number}.methods", printed.methods, study.objectives)


def _without_truth(study: ImageTextStudy) -> Iterator[str]:
    """Report settings that need boxes, labels or a known truth that the data do not provide."""
    data: Any = study.dataset
    needs = {row: task.NEEDS for task in study.TASKS.values() for row in task.ROWS}[study.primary.task]
    needing = {"figures.overlays": study.figures.overlays, "evaluation.region_retrieval": study.evaluation.region_retrieval}
    for key, given in needing.items():
        if given and not data.boxed:
            yield f"{key} needs boxes, which {data.source} has not; leave it out"
    if (needs == "boxes" and not data.boxed) or (needs == "labels" and not data.labelled):
        yield f"primary.task is {study.primary.task!r}, which needs {needs}, and {data.source} has none; take a retrieval"
    objective: Any
    for name, objective in study.objectives.items():
        if objective.name == "oracle" and not data.truth_known:
            yield f"objectives.{name} is an oracle, but what is true of {data.source}'s images is not known; leave it out"
        if "labels" in values_of(getattr(objective, "by", None)) and not data.labelled:
            yield f"objectives.{name}.by is 'labels', but {data.source} has none; take text, or leave it out"
    if study.primary.oracle is None and data.truth_known:
        yield f"primary.oracle is missing, expected an objective whose name is oracle: {data.source} knows the truth"


def _not_measured(key: str, given: MeasurementSettings, study: TrainedStudy) -> Iterator[str]:
    """Report a measurement that the study's evaluation does not produce."""
    measured = tasks.measured(study.evaluation, dict(study.TASKS))
    if given.task not in measured:
        yield f"{key}.task is {given.task!r}, which evaluation does not measure; it measures {', '.join(measured)}"
        return
    for name in ("labels", "fraction", "direction", "k"):
        value, known = getattr(given, name), measured[given.task].get(name, [None])
        if value not in known:
            expected = ", ".join("nothing" if one is None else format_value(one) for one in known)
            yield f"{key}.{name} is {'missing' if value is None else repr(value)}, expected one of: {expected}"


def _unknown(key: str, names: Iterable[str], known: Collection[str], kind: str = "objectives") -> Iterator[str]:
    """Report names under a key that are not among the known ones."""
    for name in names:
        if name not in known:
            yield f"{key} names {name!r}, expected one of the {kind}: {', '.join(known)}"


def _unknown_dataset(key: str, label: str | None, known: Collection[str]) -> Iterator[str]:
    """Report a data set that does not exist, or a missing name where there are several data sets."""
    if label not in known and not (label is None and len(known) == 1):
        yield f"{key} is {'missing' if label is None else repr(label)}, expected one of the data sets: {', '.join(known)}"
