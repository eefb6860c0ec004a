"""Checks across the settings of a configuration: references to unknown names, and settings that
exclude each other.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from trueneg.config.configuration import Configuration
from trueneg.config.image_study import ImageStudy
from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import (
    candidates,
    corpora,
    datasets,
    families,
    field_of,
    following,
    objectives,
    of_seed,
    pilot_seeds,
    swept,
    taken_over,
)
from trueneg.config.text_study import TextStudy
from trueneg.config.trained_study import OTHERS, PRIMARY, MeasurementSettings, TrainedStudy
from trueneg.specs.guides.base import LANGUAGE_MODEL
from trueneg.specs.schedules import AdjustedSchedule
from trueneg.specs.settings import format_value, values_of
from trueneg.specs.sources import OWN, UNLABELLED
from trueneg.specs.tasks import METRICS, comparable
from trueneg.specs.tasks.base import EACH_CLASS, GROUPS, Task
from trueneg.stats.measurement import Measurement

# Folders under results/ that do not belong to a study.
RESERVED_NAMES = (
    "runs",
    "sources",
    "pairs",
    "texts",
    "benchmarks",
    "language_models",
    "logs",
    "timings",
)
# every tuned objective must sweep one of these, if they matter to it
TEMPERATURES = ("temperature", "logit_scale")


def contradictions(configuration: Configuration) -> Iterator[str]:
    """Yield one sentence per contradiction, without the full stop."""
    texts = {
        name: study
        for name, study in configuration.studies.items()
        if isinstance(study, LikelihoodStudy)
    }
    for name, study in configuration.studies.items():
        if name in RESERVED_NAMES:
            yield (
                f"{name} is not allowed as the name of a study, because results/{name} is reserved;"
                " choose another name"
            )
        for kind, check in CHECKS:
            if isinstance(study, kind):
                yield from (f"{name}.{mistake}" for mistake in check(study, texts))


def _language_models(study: LikelihoodStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    """Report unknown names of the language models that provide class probabilities or initial
    weights.
    """
    yield from _unknown(
        "eta.language_model", [study.eta.language_model], study.language_models, "language models"
    )
    starts = [
        f"{name}/{corpus}/{model}"
        for name, text in texts.items()
        for corpus in corpora(text)
        for model in text.language_models
    ]
    for label, model in study.language_models.items():
        yield from _unknown(
            f"language_models.{label}.start",
            [model.start],
            starts,
            "language models in the given files",
        )


def _comparisons(study: TrainedStudy, texts: Any) -> Iterator[str]:
    """Report unknown names in comparisons and figures."""
    primary, data = study.primary, datasets(study)
    labels = study.objectives if study.tuning is not None else objectives(study)
    yield from _unknown("primary.oracle", [primary.oracle], study.objectives)
    oracle = study.objectives.get(primary.oracle or "")
    if oracle is not None and oracle.name != "oracle":
        yield f"primary.oracle is {primary.oracle!r}; expected an objective whose name is oracle"
    named = {f"contrasts.{number}": contrast for number, contrast in enumerate(study.contrasts)}
    minus = {
        f"{key}.minus": contrast.minus
        for key, contrast in named.items()
        if contrast.minus is not None
    }
    for key, contrast in {"primary": primary, **named, **minus}.items():
        yield from _unknown(f"{key}.treatment", [contrast.treatment], study.objectives)
        yield from _unknown(f"{key}.baseline", [contrast.baseline], study.objectives)
        if contrast.treatment == contrast.baseline:
            yield (
                f"{key}.treatment and {key}.baseline are both {contrast.baseline!r}; expected two"
                " different objectives"
            )
    for key, contrast in named.items():
        if contrast.family in (PRIMARY, OTHERS):
            yield (
                f"{key}.family is {contrast.family!r}, the family of other comparisons; expected"
                " another name"
            )
    yield from _unknown_dataset("primary.dataset", primary.dataset, data)
    yield from _primary(study)
    for name, figure in study.figures:
        yield from _unknown(f"figures.{name}.objectives", getattr(figure, "objectives", ()), labels)
        yield from _unknown(
            f"figures.{name}.dataset", [getattr(figure, "dataset", None)], data, "data sets"
        )
    measured = dict.fromkeys(row.task for row in comparable(study))
    for number, published in enumerate(study.published):
        yield from _unknown(
            f"published.{number}.measured_task",
            [published.measured_task],
            measured,
            "measured tasks",
        )
        yield from _unknown(
            f"published.{number}.methods", published.methods, study.objectives | labels
        )
        yield from _unknown(f"published.{number}.settings", published.settings, data, "data sets")
    for objective in study.objectives.values():
        places: dict[str, str] = {}
        for section, model in study.sections_of(objective).items():
            for field in swept(model):
                if field in places:
                    both = f"{places[field]}.{field} and {section}.{field}"
                    yield (
                        f"{both} are both lists, which labels cannot tell apart; sweep one of them"
                    )
                places[field] = section
    for field in study.conditions:
        if field not in swept(study.training):
            value = getattr(study.training, field)
            yield (
                f"conditions contains {field}, but training.{field} is {value}; expected a list of"
                " values"
            )


def _tuning(study: TrainedStudy, texts: Any) -> Iterator[str]:
    """Report unequal budgets, shared seeds and unknown names of a tuned study."""
    tuning, baseline = study.tuning, study.primary.baseline
    if tuning is None:
        return
    if study.sweeps != "combined":
        yield f"sweeps is {study.sweeps!r}, which selects nothing; expected combined, or no tuning"
        return
    tuned = families(study)
    if both := sorted({*tuning.seeds} & {*study.seed_list}):
        yield (
            f"tuning.seeds and seeds both contain {', '.join(map(str, both))}; expected disjoint"
            " seeds"
        )
    if baseline in study.objectives and baseline not in tuned:
        yield (
            f"primary.baseline {baseline!r} is not tuned; give it as many configurations as the"
            " other tuned objectives"
        )
    counts = {name: len(variants) for name, variants in tuned.items()}
    if len(set(counts.values())) > 1:
        budgets = ", ".join(f"{name} has {count}" for name, count in counts.items())
        yield (
            f"objectives: {budgets} configurations; expected the same number for every tuned"
            " objective"
        )
    for name, variants in tuned.items():
        first, *others = map(json.loads, variants.values())
        varied = [
            field
            for field, value in first.items()
            if any(other[field] != value for other in others)
        ]
        if study.objectives[name].SCALED and not set(varied) & set(TEMPERATURES):
            yield (
                f"objectives.{name} sweeps {', '.join(varied)}; expected"
                f" {' or '.join(TEMPERATURES)} among its sweeps"
            )
    for follower, family in tuning.follow.items():
        yield from _follower(study, follower, family, tuned)
    if tuning.by is not None:
        yield from (
            mistakes := list(_not_measured("tuning.by", tuning.by, study, comparable(study)))
        )
        if not mistakes and not METRICS[tuning.by.metric].higher_is_better:
            yield (
                f"tuning.by.metric is {tuning.by.metric!r}; expected one for which higher is better"
            )


def _follower(
    study: TrainedStudy, follower: str, family: str, tuned: Collection[str]
) -> Iterator[str]:
    """Report an objective that cannot adopt the values of the tuned objective that it follows."""
    key = f"tuning.follow.{follower}"
    unknown = [
        *_unknown("tuning.follow", [follower], study.objectives),
        *_unknown(key, [family], tuned, "tuned objectives"),
    ]
    if unknown:
        yield from unknown
        return
    objective = study.objectives[follower]
    if values := swept(objective):
        yield (
            f"objectives.{follower}.{next(iter(values))} is a list, but {follower} follows"
            f" {family}; expected a single value"
        )
    if absent := [
        field for field in swept(study.objectives[family]) if field_of(objective, field) is None
    ]:
        yield f"{key} is {family!r}, which sweeps {absent[0]}, but {follower} has no such setting"
    elif not any(taken_over(study, follower).values()):
        yield (
            f"{key} is {family!r}, but {follower} states every setting that {family} sweeps; remove"
            " one of them"
        )
    else:
        winner = next(
            variant for variant in objectives(study).values() if variant.objective == family
        )
        adopted = following(study, follower, winner).sections["objective"]
        try:
            type(adopted).model_validate(adopted.model_dump())
        except ValidationError as error:
            problem = error.errors()[0]["msg"].removeprefix("Value error,")
            yield (
                f"{key} is {family!r}, but with its values, objectives.{follower}{problem}; a list"
                " of one value is adopted, too"
            )


def _images(study: ImageStudy, texts: Any) -> Iterator[str]:
    if (
        any(value != 1 for value in values_of(study.dataset.fraction))
        and not study.dataset.rare_classes
    ):
        yield (
            "dataset.fraction is below 1, but dataset.rare_classes is empty; list the classes to"
            " thin out"
        )
    unlabelled, available = study.dataset.unlabelled or 0, UNLABELLED.get(study.dataset.source, 0)
    if unlabelled > available:
        yield (
            f"dataset.unlabelled is {unlabelled}; expected at most {available}, the number"
            f" available in {study.dataset.source}"
        )
    if study.dataset.skip_incomplete and study.dataset.source not in OWN:
        yield (
            "dataset.skip_incomplete is set; expected only for your own images"
            f" ({' or '.join(OWN)}); remove it"
        )
    if "oracle" not in study.primary.model_fields_set and not unlabelled:
        yield (
            "primary.oracle is missing; expected an objective whose name is oracle, or none: all"
            " images have labels"
        )
    for key in ("size", "blur") if {*values_of(study.augmentation.name)} != {"color"} else ():
        if value := getattr(study.augmentation, key):
            yield (
                f"augmentation.{key} is {value}, but only the augmentation color has it; remove it,"
                " or set name to color"
            )
    for name, objective in study.objectives.items() if not study.dataset.validation else ():
        measured = any(
            isinstance(value, AdjustedSchedule)
            for _, setting in objective
            for value in values_of(setting)
        )
        if measured or len(candidates(study)[name]) > 1:
            need = (
                "measures a value in training"
                if measured
                else "has variants, one of which is selected"
            )
            yield (
                f"dataset.validation is 0, but objectives.{name} {need} on the validation split;"
                " expected a fraction above 0"
            )
    for name, objective in study.objectives.items():
        margins = values_of(getattr(objective, "margin", None))
        if getattr(getattr(objective, "guide", None), "RATES_IMAGES", False) and any(
            m is not None and m <= 0 for m in margins
        ):
            why = (
                "this guide rates both views of an image as equal, so no other image is rated above"
            )
            yield (
                f"objectives.{name}.margin is {min(margins):g}, but {why}; set it above 0, or use"
                " remove with a threshold"
            )
    if unlabelled and study.dataset.rare_classes:
        yield (
            "dataset.rare_classes thins out labelled images only; remove it, or remove"
            " dataset.unlabelled"
        )


def _pairs(study: ImageTextStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    data: Any = study.dataset
    yield from _unknown("dataset.text", [data.text], texts, "likelihood studies in the given files")
    if data.text in texts:
        reports: Any = texts[data.text].reports
        if reports.source != data.source:
            yield (
                f"dataset.source is {data.source!r}, but the reports of {data.text} come from"
                f" {reports.source!r}"
            )
        seeds = (*pilot_seeds(study), *study.seed_list)
        for corpus in dict.fromkeys(
            of_seed({"corpus": data.corpus}, seed)["corpus"] for seed in seeds
        ):
            yield from _unknown_dataset("dataset.corpus", corpus, corpora(texts[data.text]))
        by_text = [
            name
            for name, objective in study.objectives.items()
            if "text" in values_of(getattr(objective, "by", None))
        ]
        if by_text and texts[data.text].scoring.variant == "causal":
            yield (
                f"objectives.{by_text[0]}.by is text, but {data.text}.scoring.variant is causal;"
                " embeddings need a masked model"
            )


def _needs(study: ImageTextStudy | TextStudy, texts: Any) -> Iterator[str]:
    """Report objectives and evaluations that need labels, boxes, prompts or known matches that the
    data do not provide.
    """
    data: Any = study.dataset
    needs: list[tuple[str, Any]] = [
        ("figures.overlays", getattr(study.figures, "overlays", None) and "boxes")
    ]
    for key, task in study.TASKS.items():
        needs.append(
            (f"evaluation.{key}", task.OPTIONAL and getattr(study.evaluation, key) and task.NEEDS)
        )
    for name, objective in study.objectives.items():
        needs += [(f"objectives.{name}{key}", need) for key, need in objective.needs()]
    for key, need in dict.fromkeys(needs):
        if need and not study.provided[need]:
            remedy = (
                "set dataset.text to a likelihood study of the same texts"
                if need == LANGUAGE_MODEL
                else "remove or change it"
            )
            yield f"{key} needs {need}, which {data.source} does not have; {remedy}"
    if "oracle" not in study.primary.model_fields_set and study.provided["known matches"]:
        yield (
            "primary.oracle is missing; expected an objective whose name is oracle, or none:"
            f" {data.source} has known matches"
        )


def _prompts(study: ImageTextStudy, texts: Any) -> Iterator[str]:
    data: Any = study.dataset
    prompts = study.evaluation.zero_shot.prompts or {}
    yield from _unknown(
        "evaluation.zero_shot.prompts",
        prompts,
        data.label_names if data.labelled else prompts,
        "labels",
    )


def _texts(study: TextStudy, texts: Mapping[str, LikelihoodStudy]) -> Iterator[str]:
    """Report settings for images, and a likelihood study of other texts."""
    data: Any = study.dataset
    for name, objective in study.objectives.items():
        if "left out" in values_of(getattr(objective, "own_report", None)):
            yield (
                f"objectives.{name}.own_report is left out, but texts have no reports; remove it,"
                " or set same_text"
            )
        if getattr(data, "negative_columns", ()) and "image" in values_of(
            getattr(objective, "directions", None)
        ):
            yield (
                f"objectives.{name}.directions is image, which has no use for"
                " dataset.negative_columns; set text or both"
            )
        if getattr(data, "negative_columns", ()) and objective.NEEDS_POOLED:
            yield (
                f"objectives.{name} compares only pairs, but dataset.negative_columns has hard"
                " negatives; remove one of them"
            )
        if getattr(getattr(objective, "guide", None), "encoder", None) is not None:
            yield f"objectives.{name}.guide.encoder is a tower of images; set text_encoder instead"
    if data.text is not None:
        yield from _unknown(
            "dataset.text", [data.text], texts, "likelihood studies in the given files"
        )
    if data.text in texts:
        reports: Any = texts[data.text].reports
        yield from _unknown_dataset("dataset.corpus", data.corpus, corpora(texts[data.text]))
        for key in type(reports).model_fields if reports.source == data.source else ("source",):
            stated, scored = getattr(data, key, None), getattr(reports, key)
            if key == "labels":  # only the sets matter, and not what a run draws
                stated, scored = (
                    sets and sets.model_dump(exclude={"per_run", "fraction"})
                    for sets in (stated, scored)
                )
            if stated != scored:
                yield (
                    f"dataset.{key} is {stated!r}, but {data.text}.reports.{key} is {scored!r};"
                    " expected the same"
                )


CHECKS: tuple[tuple[type, Any], ...] = (
    (LikelihoodStudy, _language_models),
    (TrainedStudy, _comparisons),
    (TrainedStudy, _tuning),
    (ImageStudy, _images),
    (ImageTextStudy, _needs),
    (ImageTextStudy, _prompts),
    (ImageTextStudy, _pairs),
    (TextStudy, _needs),
    (TextStudy, _texts),
)


def _primary(study: TrainedStudy) -> Iterator[str]:
    """Report a primary measurement that cannot be compared with chance, or by which variants cannot
    be selected.
    """
    tasks = {
        row: task for row, task in comparable(study).items() if "test" in task.splits(study, row)
    }
    primary = study.primary.measurement
    if mistakes := list(_not_measured("primary", study.primary, study, tasks)):
        yield from mistakes
        return
    task_of = {measured.task: task for measured, task in tasks.items()}
    if not _has_chance(primary, task_of[primary.task]):
        with_chance = [measured for measured, task in tasks.items() if _has_chance(measured, task)]
        usable = dict.fromkeys(
            f"{row.task}, {row.metric}{' with a direction and a k' if row.k else ''}"
            for row in with_chance
        )
        yield (
            f"primary is {', '.join(str(value) for value in primary if value is not None)};"
            " expected a measurement with a known chance level for which higher is better:"
            f" {'; '.join(usable)}"
        )
    several = [name for name, variants in candidates(study).items() if len(variants) > 1]
    key, selecting = (
        ("tuning.by", study.tuning.by)
        if study.tuning and study.tuning.by
        else ("primary", study.primary)
    )
    validated = [
        row for row, task in comparable(study).items() if "validation" in task.splits(study, row)
    ]
    if several and validated and not [*_not_measured(key, selecting, study, comparable(study))]:
        for mistake in _not_measured(key, selecting, study, validated):
            yield (
                f"{mistake}, which are measured on the validation split, where one variant of each"
                f" of {', '.join(several)} is selected; or single values instead of lists, except"
                " for settings named in conditions"
            )


def _has_chance(measured: Measurement, task: Task) -> bool:
    """Return whether the baseline can be compared with chance."""
    return (
        bool(task.METRICS[measured.metric].higher_is_better) and task.chance(measured) is not None
    )


def _not_measured(
    key: str, section: MeasurementSettings, study: TrainedStudy, rows: Iterable[Measurement]
) -> Iterator[str]:
    """Report a measurement that is not among the study's rows."""
    needs = {row: task.NEEDS for task in study.TASKS.values() for row in task.ROWS}.get(
        section.task
    )
    if needs and not study.provided[needs]:
        yield (
            f"{key}.task {section.task!r} needs {needs}, which {study.dataset.source} does not"
            " have; remove or change it"
        )
        return
    matching = list(rows)
    for column, value in section.measurement._asdict().items():
        values = dict.fromkeys(getattr(measured, column) for measured in matching)
        wanted = (
            EACH_CLASS if column == "group" and value not in (None, *GROUPS, *values) else value
        )
        if wanted in values:
            matching = [measured for measured in matching if getattr(measured, column) == wanted]
            continue
        expected = ", ".join(
            "nothing" if choice is None else format_value(choice) for choice in values
        )
        yield (
            f"{key}.{column} is {'missing' if value is None else repr(value)}; expected one of:"
            f" {expected}"
        )
        if column in ("task", "metric"):  # the other columns depend on it
            return


def _unknown(
    key: str, names: Iterable[str | None], allowed: Collection[str], kind: str = "objectives"
) -> Iterator[str]:
    """Report names under a key that are not allowed; None is skipped."""
    expected = (
        f"expected one of the {kind}: {', '.join(allowed)}" if allowed else f"there are no {kind}"
    )
    yield from (
        f"{key} refers to {name!r}; {expected}"
        for name in names
        if name is not None and name not in allowed
    )


def _unknown_dataset(key: str, label: str | None, labels: Collection[str]) -> Iterator[str]:
    """Report a data set that does not exist, or a missing name if there are several data sets."""
    if label is None and len(labels) > 1:
        yield f"{key} is missing; expected one of the data sets: {', '.join(labels)}"
    yield from _unknown(key, [label], labels, "data sets")
