"""Expand a study into runs: data set × objective × seed, in blocks of seeds with one job per
block.
"""

import dataclasses
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from trueneg.specs.encoders import is_frozen
from trueneg.specs.guides.base import LANGUAGE_MODEL
from trueneg.specs.kinds import kind_name, kind_of
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.trained import TrainedStudy, short_digest
from trueneg.specs.objectives.released import NOT_TRAINED
from trueneg.specs.pairs.base import SEED
from trueneg.specs.resources import Device
from trueneg.specs.sections import RunSettings, Section
from trueneg.specs.settings import Settings, is_sweepable, label_of
from trueneg.specs.sources import data_name

Sections = dict[str, Any]  # models by section
OF_GUIDE = "guide "  # prefix of the sections of a guide's towers
MINER = "miner"  # section of the tower that mines hard negatives, if it has its own


class Variant(NamedTuple):
    """A variant of an objective: the objective's name, the swept values by field, and the resolved
    sections.
    """

    objective: str
    values: dict[str, Any]
    sections: Sections


@dataclasses.dataclass(frozen=True)
class Run:
    """One training run: resolved settings (no sweeps left) and a seed."""

    study: str
    dataset: str
    objective: str
    seed: int
    settings: RunSettings

    def to_json(self) -> dict[str, Any]:
        """Return plain values with a fixed key order (Snakemake compares parameters in serialised
        form).
        """
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True)
class VariantRuns:
    """The runs of one variant of an objective, and its swept values as written in the rows."""

    variant: str
    runs: list[Run]


@dataclasses.dataclass(frozen=True)
class Job:
    """The runs of one objective on one block of seeds; the first four fields are the wildcards of
    the job.

    Attributes:
        row_names: identifying columns of the rows; without ``variant`` if a winner decides it.
        choices: the runs to train for each possible winner of `family`; a single choice if there is
            no family.
        family: the tuned objective whose winner decides; None: there is nothing to decide.
        is_pilot: whether the job belongs to the first stage of a tuned study.
    """

    study: str
    dataset: str
    objective: str
    block: str
    row_names: dict[str, str]
    choices: dict[str, VariantRuns]
    family: str | None = None
    is_pilot: bool = False

    @property
    def runs(self) -> list[Run]:
        """The runs of the first choice, which is the only one unless a winner decides."""
        return next(iter(self.choices.values())).runs

    def to_json(self) -> Any:
        """Return plain values: the runs or, if a winner decides, the data set, the family and the
        choices with their runs.
        """
        if self.family is None:
            return [run.to_json() for run in self.runs]
        choices = {winner: dataclasses.asdict(choice) for winner, choice in self.choices.items()}
        return {"dataset": self.dataset, "family": self.family, "choices": choices}


def training_devices(settings: RunSettings) -> tuple[Device, int]:
    """Return the type and number of devices that train a run; one CPU if the run trains nothing."""
    if settings["objective"]["name"] in NOT_TRAINED:
        return "cpu", 1
    return settings["training"]["device"], settings["training"]["devices"]


def swept(section: Settings) -> dict[str, list[Any]]:
    """Return a section's sweeps by field, with dotted paths for nested sections."""
    fields = type(section).model_fields
    sweeps = dict[str, list[Any]]()
    for name, value in section:
        if isinstance(value, Settings):
            sweeps |= {f"{name}.{path}": values for path, values in swept(value).items()}
        elif isinstance(value, list) and is_sweepable(fields[name]):
            sweeps[name] = value
    return sweeps


def field_of(section: Settings, path: str) -> FieldInfo | None:
    """Return the field at a dotted path; None if the section, as set, has no such field."""
    owner: Any = section
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part, None)
    return type(owner).model_fields.get(name) if isinstance(owner, Settings) else None


def _replaced(section: Any, path: str, value: Any) -> Any:
    """Return the section with a new value at a dotted path."""
    name, _, rest = path.partition(".")
    return section.model_copy(
        update={name: _replaced(getattr(section, name), rest, value) if rest else value}
    )


def canonical(values: Section) -> str:
    """Format swept values as canonical JSON, for the columns ``condition`` and ``variant`` of rows.

    Example:
        >>> canonical({"temperature": 0.1, "class_probability": "low"})
        '{"class_probability":"low","temperature":0.1}'
    """
    return json.dumps(
        to_jsonable_python(values), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )


def _one_at_a_time(*lists: list[Any]) -> Iterator[list[Any]]:
    """Yield the first value of every list, then each other value combined with the first values of
    the other lists.

    Example:
        >>> list(_one_at_a_time([64, 32], [512, 256]))
        [[64, 512], [32, 512], [64, 256]]
    """
    base = [values[0] for values in lists]
    yield base
    for place, values in enumerate(lists):
        yield from ([*base[:place], value, *base[place + 1 :]] for value in values[1:])


COMBINATIONS: dict[str, Callable[..., Iterable[Any]]] = {
    "combined": itertools.product,
    "one at a time": _one_at_a_time,
}


def _resolved(
    sections: Sections, sweeps: Section | None = None, combined: str = "combined"
) -> Iterator[tuple[str, dict[str, Any], Sections]]:
    """Yield each combination of swept values: its label, its values by field, and the resolved
    sections.

    Args:
        sections: models by name.
        sweeps: the fields to resolve and their values, by section; None: every sweep.
        combined: how the values combine, a key of :data:`COMBINATIONS`.
    """
    sweeps = (
        {name: swept(section) for name, section in sections.items()} if sweeps is None else sweeps
    )
    axes = [
        (name, field, values) for name, fields in sweeps.items() for field, values in fields.items()
    ]
    for combination in COMBINATIONS[combined](*(values for *_, values in axes)):
        resolved = dict(sections)
        chosen = {}
        for (name, field, _), value in zip(axes, combination, strict=True):
            resolved[name] = _replaced(resolved[name], field, value)
            chosen[field] = value
        yield (
            ",".join(f"{field}={label_of(value)}" for field, value in chosen.items()),
            chosen,
            resolved,
        )


def conditions(study: TrainedStudy) -> dict[str, tuple[dict[str, Any], TrainedStudy]]:
    """Return the swept values of each data set or condition, and the study with these values, by
    label.
    """
    chosen = {
        field: values
        for field, values in swept(study.training).items()
        if field in study.conditions
    }
    sweeps = {"dataset": swept(study.dataset), "training": chosen}
    name = data_name(study.dataset.source, getattr(study.dataset, "path", None))
    resolved = _resolved({"dataset": study.dataset, "training": study.training}, sweeps)
    return {
        label or name: (values, study.model_copy(update=sections))
        for label, values, sections in resolved
    }


def datasets(study: TrainedStudy) -> dict[str, Any]:
    """Return the resolved data settings of each data set or condition of a study, by label."""
    return {label: resolved.dataset for label, (_, resolved) in conditions(study).items()}


def corpora(study: LikelihoodStudy) -> dict[str, Any]:
    """Return the resolved report settings of each corpus of a likelihood study, by label."""
    return {
        label or study.reports.source: sections["reports"]
        for label, _, sections in _resolved({"reports": study.reports})
    }


def is_wanted(name: str, studies: Mapping[str, Any]) -> bool:
    """Return whether the likelihoods of a study are wanted: for themselves if no study names its
    texts, otherwise by an objective that uses them or their language model.
    """
    named_by = [
        study
        for study in studies.values()
        if getattr(getattr(study, "dataset", None), "text", None) == name
    ]
    return not named_by or any(
        need == LANGUAGE_MODEL
        for study in named_by
        for objective in study.objectives.values()
        for _, need in objective.needs()
    )


def negative_counts(study: TrainedStudy) -> dict[str, int]:
    """Return N for each label of :func:`datasets` if the batch size is a condition."""
    if "batch_size" not in study.conditions:
        return {}
    return {
        label: study.negatives(resolved.training.batch_size)
        for label, (_, resolved) in conditions(study).items()
    }


def objectives(study: TrainedStudy) -> dict[str, Variant]:
    """Return the variants of all objectives by label.

    Conditions do not define variants, so the labels are the same for each condition. The first
    variant of an objective has the first value of each of its sweeps; if ``sweeps`` is ``one at a
    time``, it is the base.
    """
    _, resolved = next(iter(conditions(study).values()))
    return {
        f"{name},{label}" if label else name: Variant(name, values, sections)
        for name, objective in resolved.objectives.items()
        for label, values, sections in _resolved(
            resolved.sections_of(objective), combined=study.sweeps
        )
    }


def variants(study: TrainedStudy) -> dict[str, dict[str, str]]:
    """Return each objective's variants, as written in the rows, by label."""
    by_objective: dict[str, dict[str, str]] = {name: {} for name in study.objectives}
    for label, variant in objectives(study).items():
        by_objective[variant.objective][label] = canonical(variant.values)
    return by_objective


def shown_examples(study: TrainedStudy) -> list[str]:
    """Return data set and label, as ``dataset/label``, of the networks whose retrieval examples are
    shown.

    These are the first variant of each objective in the primary contrast or, if the study is tuned,
    the chosen one.
    """
    primary = study.primary
    labelled = variants(study)
    named = dict.fromkeys(filter(None, (primary.baseline, primary.treatment, primary.oracle)))
    labels = named if study.tuning is not None else [next(iter(labelled[name])) for name in named]
    dataset = primary.dataset or next(iter(datasets(study)))
    return [f"{dataset}/{label}" for label in labels]


def followed(study: TrainedStudy) -> dict[str, str]:
    """Return the tuned objective that each follower follows; empty if the study is not tuned."""
    return dict(study.tuning.follow) if study.tuning is not None else {}


def families(study: TrainedStudy) -> dict[str, dict[str, str]]:
    """Return the objectives that a tuned study tunes, with their variants by label; empty if the
    study is not tuned.
    """
    return {} if study.tuning is None else several(study)


def several(study: TrainedStudy) -> dict[str, dict[str, str]]:
    """Return the objectives with more than one variant, with these by label; followers have none
    of their own.
    """
    return {
        name: labelled
        for name, labelled in variants(study).items()
        if len(labelled) > 1 and name not in followed(study)
    }


def taken_over(study: TrainedStudy, follower: str) -> list[tuple[str, str]]:
    """Return section and field of the settings for which a follower takes the winner's values.

    These are the swept settings of shared sections, and those of the objective that the follower
    leaves at their defaults.
    """
    objective = study.objectives[follower]
    family = study.objectives[followed(study)[follower]]
    return [
        (section, field)
        for section, model in study.sections_of(family).items()
        for field in swept(model)
        if section != "objective" or _at_default(objective, field)
    ]


def _at_default(section: Settings, path: str) -> bool:
    field = field_of(section, path)
    return (
        field is not None
        and not field.is_required()
        and attrgetter(path)(section) == field.get_default()
    )


def pilot_seeds(study: TrainedStudy) -> list[int]:
    """Return the seeds of the first stage; empty if the study has none."""
    return (
        [] if study.tuning is None or study.tuning.winners is not None else list(study.tuning.seeds)
    )


def of_seed(dataset: Section, seed: int) -> Section:
    """Return the settings of a data set for one seed, which may have its own corpus.

    Example:
        >>> of_seed({"source": "phantom", "corpus": "seed={seed}"}, 7)
        {'source': 'phantom', 'corpus': 'seed=7'}
    """
    corpus = dataset.get("corpus")
    return {**dataset, "corpus": corpus.replace(SEED, str(seed))} if corpus else dataset


def blocks(study: TrainedStudy) -> dict[str, list[int]]:
    """Return the seeds of each job by block name, for both stages if the study is tuned."""
    return _blocks(study, pilot_seeds(study)) | _blocks(study, study.seed_list)


def _blocks(study: TrainedStudy, seeds: list[int]) -> dict[str, list[int]]:
    """Return blocks of seeds by name; the name lists the seeds, so a block that grows gets a new
    name.
    """
    size = 1 if getattr(study.dataset, "corpus_per_seed", False) else study.training.seeds_per_job
    named = {}
    for start in range(0, len(seeds), size):
        block = seeds[start : start + size]
        contiguous = len(block) > 1 and block == list(range(block[0], block[-1] + 1))
        named["seed" + (f"{block[0]}-{block[-1]}" if contiguous else "+".join(map(str, block)))] = (
            block
        )
    return named


class _ToTrain(NamedTuple):
    """What the jobs with one label train.

    Attributes:
        label: the objective of the jobs, with swept values unless a winner decides these.
        variants: the variant to train for each possible winner; a single one if there is no family.
        family: as in :class:`Job`.
        is_pilot: as in :class:`Job`.
    """

    label: str
    variants: dict[str, Variant]
    family: str | None = None
    is_pilot: bool = False


def _to_train(study: TrainedStudy) -> Iterator[_ToTrain]:
    """Yield each variant or, if the study is tuned, each candidate of the first stage and then each
    objective.
    """
    labelled = objectives(study)
    if study.tuning is None:
        for label, variant in labelled.items():
            yield _ToTrain(label, {"": variant})
        return
    tuned = families(study)
    if pilot_seeds(study):
        for label, variant in labelled.items():
            if variant.objective in tuned:
                yield _ToTrain(label, {"": variant}, is_pilot=True)
    for name in study.objectives:
        family = followed(study).get(name, name)
        possible = [variant for variant in labelled.values() if variant.objective == family]
        if family in tuned:
            decided = {canonical(each.values): following(study, name, each) for each in possible}
            yield _ToTrain(name, decided, family)
        else:
            yield _ToTrain(name, {"": possible[0]})


def following(study: TrainedStudy, name: str, winner: Variant) -> Variant:
    """Return the variant of an objective to train, given its family's winner."""
    if name not in followed(study):
        return winner
    sections = study.sections_of(study.objectives[name])
    values = {}
    for section, field in taken_over(study, name):
        values[field] = winner.values[field]
        sections[section] = _replaced(sections[section], field, values[field])
    return Variant(name, values, sections)


def jobs(name: str, study: TrainedStudy) -> Iterator[Job]:
    """Yield the training jobs of a study."""
    for dataset, (condition, resolved) in conditions(study).items():
        data = resolved.dataset.model_dump(mode="json")
        for label, variants, family, is_pilot in _to_train(resolved):
            first = next(iter(variants.values()))
            row_names = {
                "study": name,
                "dataset": dataset,
                "objective": first.objective,
                "condition": canonical(condition),
            }
            if family is None:
                row_names["variant"] = canonical(first.values)
            plain = {winner: _plain(variant.sections) for winner, variant in variants.items()}
            stage = pilot_seeds(study) if is_pilot else study.seed_list
            for block, seeds in _blocks(study, stage).items():
                choices = {}
                for winner, variant in variants.items():
                    settings = {**plain[winner], "dataset": of_seed(data, seeds[0])}
                    trained = [Run(name, dataset, label, seed, settings) for seed in seeds]
                    choices[winner] = VariantRuns(canonical(variant.values), trained)
                yield Job(name, dataset, label, block, row_names, choices, family, is_pilot)


def _plain(sections: Sections) -> RunSettings:
    return {section: model.model_dump(mode="json") for section, model in sections.items()}


def all_runs(name: str, study: TrainedStudy) -> list[Run]:
    """Return all runs of a study; where a winner decides, those of the first choice."""
    return [run for job in jobs(name, study) for run in job.runs]


def benchmark_key(settings: Section) -> str:
    """Return the name of the CheXpert 8×200 file with images resized, and cropped or stretched,
    like those of a study.
    """
    made_of = [settings[key] for key in ("path", "lists", "fit") if key in settings]
    return f"chexpert_8x200-{settings['resolution']}px-{short_digest(made_of)}"


def towers_of(settings: RunSettings) -> RunSettings:
    """Return the towers of other libraries, or vectors in their place, that a run uses, by section.

    Those of its guide are called ``guide encoder`` and ``guide text_encoder``, and one that mines
    hard negatives ``miner``.
    """
    guide = settings["objective"].get("guide") or {}
    sections = ("encoder", "text_encoder", "positive_encoder")
    towers = {section: settings.get(section) for section in sections} | {
        OF_GUIDE + key: guide.get(key) for key in sections
    }
    towers[MINER] = (settings["objective"].get("hard_negatives") or {}).get("text_encoder")
    # networks from scratch have none
    return {section: tower for section, tower in towers.items() if tower and "train" in tower}


def all_towers(settings: RunSettings) -> RunSettings:
    """Return what the vectors of each tower of a run are made of, by section: the tower, the data,
    and any views.
    """
    made: dict[str, dict[str, Any]] = {}
    kind = kind_of(settings)
    data = kind.data_key(settings["dataset"])
    for section, tower in towers_of(settings).items():
        own = made.get("encoder", {}).get("tower", {})
        if section == f"{OF_GUIDE}encoder" and own == {**tower, "views": own.get("views")}:
            made[section] = made["encoder"]  # whose first version is the image itself
            continue
        samples = "texts" if is_of_texts(section) else "images"
        # Towers of positives and of guides share the vectors of an encoder with the same settings.
        name = "text_encoder" if samples == "texts" else "encoder"
        made[section] = {
            "section": name,
            "tower": dict(tower),
            "samples": samples,
            "kind": kind_name(kind),
            "data": data,
        }
        if samples == "images":
            is_guide = section.startswith(OF_GUIDE)
            made[section]["regions"] = "" if is_guide else kind.regions(settings)
        if tower.get("views"):
            made[section]["augmentation"] = dict(settings["augmentation"])
    return made


def is_of_texts(section: str) -> bool:
    """Return whether the tower of a section embeds texts, and not images."""
    return section.removeprefix(OF_GUIDE) != "encoder"


def frozen_towers(settings: RunSettings) -> RunSettings:
    """Return those of :func:`all_towers` that are computed once."""
    return {
        section: made for section, made in all_towers(settings).items() if is_frozen(made["tower"])
    }


BM25 = "-bm25"


def miner(settings: RunSettings) -> Section | None:
    """Return what the vectors are made of that a run's hard negatives are mined with; None: it
    mines none.
    """
    if settings["objective"].get("hard_negatives") is None:
        return None
    towers = frozen_towers(settings)
    return towers.get(MINER) or towers["text_encoder"]


def mining_key(settings: RunSettings) -> str | None:
    """Return the name of these vectors, with what ranks the texts instead, if anything does."""
    made_of = miner(settings)
    if made_of is None:
        return None
    is_by_words = settings["objective"]["hard_negatives"].get("bm25", False)
    return features_key(made_of) + BM25 * is_by_words


def features_key(made_of: Section) -> str:
    """Return the name of a frozen tower's vectors, shared by all runs with the same tower on the
    same data.
    """
    made_of = {
        **made_of,
        "tower": {key: value for key, value in made_of["tower"].items() if key != "offline"},
    }
    return f"{made_of['tower']['name']}-{made_of['samples']}-{short_digest(made_of)}"
