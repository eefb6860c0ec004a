"""What contradicts itself in a study that trains encoders: comparisons, sweeps and tuning."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from trueneg.config.checks.names import unknown, unknown_dataset
from trueneg.config.equal_temperature import with_loss_of_baseline
from trueneg.config.runs import (
    datasets,
    families,
    field_of,
    following,
    objectives,
    several,
    swept,
    taken_over,
)
from trueneg.specs.kinds.trained import (
    OTHERS,
    PRIMARY,
    MeasurementSettings,
    TrainedStudy,
    Tuning,
)
from trueneg.specs.objectives.base import Objective
from trueneg.specs.settings import format_value, values_of
from trueneg.specs.tasks import METRICS, comparable
from trueneg.specs.tasks.base import EACH_CLASS, GROUPS, Task
from trueneg.specs.temperature import INITIAL_TEMPERATURE, TEMPERATURE_KEYS
from trueneg.stats.measurement import Measurement


def contradictions(study: TrainedStudy, texts: Any) -> Iterator[str]:
    """Report what contradicts itself in a study of any kind that trains encoders."""
    yield from _comparisons(study)
    yield from _primary(study)
    yield from _figures(study)
    yield from _published(study)
    yield from _sweeps(study)
    yield from _hard_negatives(study)
    if study.tuning is not None:
        yield from _tuning(study, study.tuning)
    elif study.sweeps == "combined" and (names := several(study)):
        yield (
            f"objectives: several configurations of {', '.join(names)}, but no tuning; add it, and"
            " its pilot seeds select one of each, or set sweeps to one at a time: the first values"
            " are then compared, and nothing is selected"
        )


def given_negatives(study: TrainedStudy) -> str:
    """Return the setting of the data set that gives hard negatives; empty if there is none."""
    keys = ("negative_columns", "negative_image_columns")
    return next((f"dataset.{key}" for key in keys if getattr(study.dataset, key, None)), "")


def _hard_negatives(study: TrainedStudy) -> Iterator[str]:
    """Report objectives that do not fit hard negatives, and corrections of hard negatives where
    there are none.
    """
    for name, objective in study.objectives.items():
        mines = getattr(objective, "hard_negatives", None) is not None
        has_hard = "hard_negatives" if mines else given_negatives(study)
        if has_hard and "image" in values_of(getattr(objective, "directions", None)):
            yield (
                f"objectives.{name}.directions is image, which has no use for hard"
                " negatives; set text or both"
            )
        if has_hard and objective.NEEDS_POOLED:
            yield (
                f"objectives.{name} compares only pairs, but {has_hard} gives it hard negatives;"
                " remove one of them"
            )
        for scope in values_of(getattr(objective, "scope", "all")):
            if scope != "all" and not has_hard:
                yield (
                    f"objectives.{name}.scope is {scope}, but there are no hard negatives; set it"
                    " to all"
                )


def _comparisons(study: TrainedStudy) -> Iterator[str]:
    """Report unknown names in comparisons."""
    primary = study.primary
    yield from unknown("primary.oracle", [primary.oracle], study.objectives)
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
        yield from unknown(f"{key}.treatment", [contrast.treatment], study.objectives)
        yield from unknown(f"{key}.baseline", [contrast.baseline], study.objectives)
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
    yield from unknown_dataset("primary.dataset", primary.dataset, datasets(study))


def _labels(study: TrainedStudy) -> Mapping[str, Any]:
    """Return the labels of what the study compares: objectives if it is tuned, else variants."""
    return study.objectives if study.tuning is not None else objectives(study)


def _figures(study: TrainedStudy) -> Iterator[str]:
    """Report unknown names in figures."""
    data = datasets(study)
    labels = _labels(study)
    for name, figure in study.figures:
        yield from unknown(f"figures.{name}.objectives", getattr(figure, "objectives", ()), labels)
        dataset = getattr(figure, "dataset", None)
        yield from unknown(f"figures.{name}.dataset", [dataset], data, "data sets")


def _published(study: TrainedStudy) -> Iterator[str]:
    """Report unknown names in published tables."""
    measured = dict.fromkeys(row.task for row in comparable(study))
    methods = {**study.objectives, **_labels(study)}
    for number, published in enumerate(study.published):
        key = f"published.{number}"
        task = published.measured_task
        yield from unknown(f"{key}.measured_task", [task], measured, "measured tasks")
        yield from unknown(f"{key}.methods", published.methods, methods)
        yield from unknown(f"{key}.settings", published.settings, datasets(study), "data sets")


def _sweeps(study: TrainedStudy) -> Iterator[str]:
    """Report sweeps that labels cannot tell apart, and conditions that are no sweeps."""
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
    for name, objective in study.objectives.items():
        if objective.TRAINED:
            yield from _unused_temperatures(study, name, objective)
    for field in study.conditions:
        if field not in swept(study.training):
            value = getattr(study.training, field)
            yield (
                f"conditions contains {field}, but training.{field} is {value}; expected a list of"
                " values"
            )


def _unused_temperatures(study: TrainedStudy, name: str, objective: Objective) -> Iterator[str]:
    """Report temperatures that an objective does not use, but that would tell its runs apart."""
    own = [key for key in sorted(TEMPERATURE_KEYS) if getattr(objective, key, None) is not None]
    if not objective.SCALED:
        reason = f"{name} has no temperature"
        yield from (f"objectives.{name}.{key} is set, but {reason}; remove it" for key in own)
    elif initial := [key for key in own if key in INITIAL_TEMPERATURE]:
        reason = f"objectives.{name}.{initial[0]} is set"
    else:
        return
    for section in ("training", "similarity"):
        shared = getattr(study, section, None)
        for field in swept(shared) if shared is not None else ():
            if field in INITIAL_TEMPERATURE:
                yield (
                    f"{section}.{field} is a list, but {reason}, so that its runs would be equal;"
                    " give the list to each objective that uses it"
                )


def _tuning(study: TrainedStudy, tuning: Tuning) -> Iterator[str]:
    """Report unequal budgets, shared seeds and unknown names of a tuned study."""
    baseline = study.primary.baseline
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
        yield from _temperatures(study.objectives[name], name, variants)
    for follower, family in tuning.follow.items():
        yield from _follower(study, follower, family, tuned)
    yield from _selecting(study, tuning.by)


def _selecting(study: TrainedStudy, by: MeasurementSettings | None) -> Iterator[str]:
    """Report a measurement that cannot select on the validation split."""
    key = "primary" if by is None else "tuning.by"
    section = by or study.primary
    tasks = comparable(study)
    if mistakes := list(_not_measured(key, section, study, tasks)):
        yield from mistakes if by is not None else ()  # of primary, they are reported already
        return
    if by is not None and not METRICS[by.metric].higher_is_better:
        yield f"tuning.by.metric is {by.metric!r}; expected one for which higher is better"
        return
    validated = [row for row, task in tasks.items() if "validation" in task.splits(study, row)]
    for mistake in _not_measured(key, section, study, validated):
        yield (
            f"{mistake}, which are measured on the validation split, where tuning selects;"
            " tuning.by can differ from primary"
        )


def _temperatures(objective: Any, name: str, variants: Mapping[str, str]) -> Iterator[str]:
    """Report a tuned objective whose temperature matters, but is not swept."""
    first, *others = map(json.loads, variants.values())
    varied = [
        field for field, value in first.items() if any(other[field] != value for other in others)
    ]
    if objective.SCALED and not set(varied) & set(INITIAL_TEMPERATURE):
        yield (
            f"objectives.{name} sweeps {', '.join(varied)}; expected"
            f" {' or '.join(INITIAL_TEMPERATURE)} among its sweeps"
        )


def _follower(
    study: TrainedStudy, follower: str, family: str, tuned: Collection[str]
) -> Iterator[str]:
    """Report an objective that cannot adopt the values of the tuned objective that it follows."""
    key = f"tuning.follow.{follower}"
    mistakes = [
        *unknown("tuning.follow", [follower], study.objectives),
        *unknown(key, [family], tuned, "tuned objectives"),
    ]
    if mistakes:
        yield from mistakes
        return
    objective = study.objectives[follower]
    if values := swept(objective):
        yield (
            f"objectives.{follower}.{next(iter(values))} is a list, but {follower} follows"
            f" {family}; expected a single value"
        )
    absent = [
        field for field in swept(study.objectives[family]) if field_of(objective, field) is None
    ]
    if absent and study.primary.baseline not in study.objectives:
        return  # the baseline, which may follow any family, is reported as unknown
    # the baseline at a method's temperature has no settings of the method
    if absent and follower not in with_loss_of_baseline(study):
        yield f"{key} is {family!r}, which sweeps {absent[0]}, but {follower} has no such setting"
    elif not taken_over(study, follower):
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


def _primary(study: TrainedStudy) -> Iterator[str]:
    """Report a primary measurement that cannot be compared with chance."""
    tasks = {
        row: task for row, task in comparable(study).items() if "test" in task.splits(study, row)
    }
    primary = study.primary.measurement
    if mistakes := list(_not_measured("primary", study.primary, study, tasks)):
        yield from mistakes
        return
    task_of = {measured.task: task for measured, task in tasks.items()}
    by_sample = primary.task in task_of[primary.task].BY_SAMPLE and primary.group in (None, "macro")
    directions = {measured.direction for measured in tasks if measured.task == primary.task}
    by_sample = by_sample and (primary.direction is not None or directions == {None})
    if study.primary.over != "runs" and not by_sample:
        known = dict.fromkeys(name for task in tasks.values() for name in task.BY_SAMPLE)
        yield (
            f"primary.over is {study.primary.over!r}, but {primary.task} of group {primary.group}"
            " has no values by sample; expected one of the tasks"
            f" {', '.join(known) or '(none)'}, of all classes or macro and in one direction, or"
            " over: runs"
        )
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
