"""What studies that train encoders share: training, seeds, sweeps, comparisons and published
numbers.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from trueneg.specs.resources import JobResources, ResumableResources
from trueneg.specs.sections import RunSettings, Section
from trueneg.specs.settings import (
    AtLeastTwo,
    Count,
    EachOnce,
    Fraction,
    Integer,
    Name,
    NonEmpty,
    PathText,
    Positive,
    Real,
    Seed,
    Settings,
    Study,
    Sweepable,
    Technical,
    values_of,
)
from trueneg.specs.tasks.base import Task
from trueneg.stats.measurement import KEYS, Measurement

SeedCount = Annotated[Integer, Field(ge=1, le=10_000)]
# The word, too, because null removes the oracle of a file that this one extends.
OracleName = Annotated[str | None, BeforeValidator(lambda name: None if name == "none" else name)]
CONDITIONS = (
    "swept `training` settings to report value by value, like data sets; the others follow `sweeps`"
)
SWEEPS = (
    "combined: each combination of listed values is a candidate of `tuning`, without which it is"
    " refused; one at a time: the first values are compared, each further variant replaces one of"
    " them by another value, and nothing is selected"
)


class SharedTrainingSettings(JobResources, ResumableResources):
    """Training length and resources, in studies of every kind."""

    epochs: Sweepable[Count] | None = None
    """passes over the training set; cannot be combined with `updates`"""
    updates: Sweepable[Count] | None = None
    """optimiser steps, for equal work on data sets of different sizes"""
    batch_size: Sweepable[AtLeastTwo]
    seeds_per_job: Technical[Count] = 8
    """seeds per job, which share the time for imports and compilation"""
    runs_per_device: Technical[Count] = 1
    """jobs per GPU, if small steps leave it idle; multiply Snakemake's `gpu` by this number"""
    devices: Technical[Count] = 1
    """GPUs per run, each with an equal part of every batch; changes rounding and dropout"""

    @model_validator(mode="after")
    def _one_length_and_equal_parts(self):
        if (self.epochs is None) == (self.updates is None):
            raise ValueError(" must set exactly one of epochs and updates")
        for size in values_of(self.batch_size):
            if size % self.devices:
                raise ValueError(
                    f".devices is {self.devices}, but batches of {size} cannot be split into equal"
                    " parts"
                )
        if self.devices > 1 and getattr(self, "compile", False):  # only image training has compile
            raise ValueError(
                f".compile is true, but is not supported with {self.devices} devices; set it to"
                " false"
            )
        return self


class MeasurementSettings(Settings):
    """A measurement of the study's evaluation, identified by the key columns of its rows."""

    task: str
    metric: str
    labels: str | None = None
    """label pool (all, imbalanced), or relevance in retrieval (report, truth, …)"""
    fraction: Fraction | None = None
    """fraction of the labels that a classifier is trained on"""
    direction: str | None = None
    """direction of retrieval, such as text to image; none: mean of both"""
    k: Count | None = None
    """k of R@k or Prec@k; none: mean over all k"""
    group: str | None = None
    """name of a class, or rare, common or macro (the mean over classes); none: all"""

    @property
    def measurement(self) -> Measurement:
        """The settings as a :class:`Measurement`."""
        return Measurement(**{key: getattr(self, key) for key in KEYS})


class Contrast(Settings):
    """Two objectives to compare."""

    treatment: str
    """objective whose gain is measured"""
    baseline: str
    """objective to compare it with"""


FEW_PILOTS = 4  # fewer pilot seeds gave the baseline a poor temperature three times
# Families of the primary contrast, and of the differences from its baseline that no contrast names.
PRIMARY = "primary"
OTHERS = "others"


class NamedContrast(Contrast):
    """A comparison that the study names besides the primary one, made for every measurement."""

    family: str | None = "named"
    """contrasts of a family share Holm's correction; null: an interval, no test"""
    minus: Contrast | None = None
    """contrast that is subtracted, for a difference of differences"""


class PrimarySettings(Contrast, MeasurementSettings):
    """The study's primary comparison, fixed before it runs; others are exploratory, unless
    `contrasts` gives them a family.
    """

    dataset: str | None = None
    """label of the data set, such as fraction=0.1; none: the only data set"""
    oracle: OracleName = None
    """objective whose gain over the baseline is the headroom; none: unknown headroom"""
    margin: Positive | None = None
    """equivalence margin in the metric's unit, such as 0.005; none: no test"""
    published: Real | None = None
    """published difference, shown beside the minimum detectable difference"""
    over: Literal["runs", "runs and samples"] = "runs"
    """what the interval covers: new training runs on the same samples, as for a benchmark; or new
    test samples, too, as for your own data
    """


class Tuning(Settings):
    """Two stages: pilot seeds select one configuration per swept objective; then the winners are
    trained on `seeds`.
    """

    seeds: Annotated[NonEmpty[Seed], EachOnce]
    """pilot seeds of the first stage, none of them in `seeds`"""
    rule: Literal["largest mean"] = "largest mean"
    """a winner has the largest mean over pilot seeds on the validation split; ties go
    to the first
    """
    by: MeasurementSettings | None = None
    """measurement to select by; none: that of `primary`"""
    follow: dict[Name, str] = Field({})
    """for an untuned objective, the tuned one whose winning values it adopts for settings at their
    default
    """
    winners: PathText | None = None
    """winners.json of an earlier first stage, which is then not run"""


class Published(Settings):
    """Tables of a paper. config/published.csv lists each printed number and our corresponding
    measurement.
    """

    paper: str
    """value in the `paper` column of config/published.csv"""
    tables: NonEmpty[str]
    """values in the `table` column"""
    task: str | None = None
    """value in the `task` column; none: all tasks of the tables"""
    methods: dict[str, str] = Field({})
    """value in the `method` column of each objective or variant with another name"""
    settings: dict[str, str] = Field({})
    """value in the `setting` column for each data set; empty: compare with the primary contrast's
    data set
    """
    measured_task: str | None = None
    """our task for these numbers; none: that of config/published.csv"""
    differs: str | None = None
    """how the study's protocol differs from the paper's; marks our numbers with †"""


class Panels(Settings):
    """A figure with one panel per objective."""

    objectives: NonEmpty[str]
    """objectives to show, one panel each"""


UNTRAINED = "untrained"  # name of the objective that a study with pretrained towers is given


class TrainedStudy(Study):
    """A study with one run per data set × objective × seed.

    A list in place of a single value is a sweep: under ``dataset`` it defines several data sets;
    under one of :attr:`SECTIONS` or an objective (or its ``targets``), it defines variants of each
    objective, combined as ``sweeps`` says.

    Attributes:
        SECTIONS: with the objective, these define a variant; ``training`` is included.
        TASKS: tasks available to its evaluation, by name.
        SAMPLES: the package in :mod:`trueneg.data` that reads its sources, and that in
            :mod:`trueneg.evaluation` with its tasks.
        FOLDER: folder in the results folder for the data that were read.
        SPLITTING: settings of a data set that do not affect how it is read.
        READER: reads what was read from a source before.
        SPLITTER: draws the subset of a seed, given the source, the data set's settings, the seed
            and the official splits.
        TRAINING: trains a run.
        AUGMENTATION: makes the augmentation of images, given its settings, means and deviations.
        EXPORTED_BY: rebuilds the encoders of a finished run.
        FALSE_NEGATIVES: says what is known of a run's false negatives before training.
        FIRST_LOOK: reads a source as its first job does, as far as ``trueneg check`` needs.
        PLANNED_NETWORKS: describes networks that are no towers for ``trueneg check``; empty: there
            are none.
        PASSES: sections of the encoders that a training sample passes through, once each.
        PER_PIXEL: GFLOP of a forward pass per pixel, by name of the encoder.
        TABLES: tables of measurements by name, besides the differences.
        two_views: whether pairs are two views of one image.
        joins_reports: whether images are joined with the sentences of reports.
        draws_sweeps: whether swept settings of its objectives are drawn.
        has_examples: whether examples of retrieval are shown.
    """

    CHECKED_BY = "trueneg.config.checks.trained:contradictions"
    DESCRIBED_BY = "trueneg.cli.check:describe_trained"
    FOUND_BY = "trueneg.report.findings:of_contrast"
    SECTIONS: ClassVar[tuple[str, ...]]
    TASKS: ClassVar[Mapping[str, type[Task]]]
    SAMPLES: ClassVar[str]
    FOLDER: ClassVar[str]
    SPLITTING: ClassVar[tuple[str, ...]]
    READER: ClassVar[str]
    SPLITTER: ClassVar[str]
    TRAINING: ClassVar[str]
    AUGMENTATION: ClassVar[str]
    EXPORTED_BY: ClassVar[str]
    FALSE_NEGATIVES: ClassVar[str]
    FIRST_LOOK: ClassVar[str]
    PLANNED_NETWORKS: ClassVar[str] = ""
    PASSES: ClassVar[tuple[str, ...]]
    PER_PIXEL: ClassVar[Mapping[str, float]] = {}
    TABLES: ClassVar[tuple[str, ...]]
    two_views: ClassVar[bool] = False
    joins_reports: ClassVar[bool] = False
    draws_sweeps: ClassVar[bool] = False
    has_examples: ClassVar[bool] = False

    seeds: SeedCount | Annotated[NonEmpty[Seed], EachOnce]
    """number of seeds (0, 1, …), or a list of seeds"""
    contrasts: list[NamedContrast] = Field([])
    """further comparisons that the study names, first in the table of differences"""
    published: list[Published] = Field([])
    """published tables to show next to the study's results"""
    sweeps: Literal["combined", "one at a time"] = Field("combined", description=SWEEPS)
    protocol: Technical[PathText | None] = None
    """file, committed to git before the runs, that names the comparisons, relative to the working
    directory or to the folder of the Snakefile; the report shows its hash and date
    """
    tuning: Tuning | None = None
    """select configurations on pilot seeds before the study's seeds are trained"""
    if TYPE_CHECKING:  # each kind of study has its own types
        dataset: Any
        training: Any
        conditions: list[Any]
        objectives: dict[str, Any]
        evaluation: Any
        primary: PrimarySettings
        figures: Any

    @model_validator(mode="before")
    @classmethod
    def _with_first_baseline(cls, keys: Any) -> Any:
        """Add the towers before training as an objective, so that every study shows whether
        training gains anything.
        """
        objectives: Any = keys.get("objectives") if isinstance(keys, dict) else None
        start = cls.before_training(keys) if isinstance(objectives, dict) else None
        if start is None or UNTRAINED in objectives:
            return keys
        listed = (objective for objective in objectives.values() if isinstance(objective, dict))
        if any(
            start == {key: value for key, value in objective.items() if value is not None}
            for objective in listed
        ):
            return keys
        return keys | {"objectives": {**objectives, UNTRAINED: start}}

    @classmethod
    def before_training(cls, keys: Section) -> Section | None:
        """Return the objective that evaluates the towers that training starts from; None if these
        cannot be compared.

        Args:
            keys: the study as it is written.
        """
        return None

    @property
    def first_baseline(self) -> str | None:
        """Name of the objective that evaluates the towers before training; None if there is
        none.
        """
        start = self.before_training(self.model_dump(exclude_none=True))
        objectives = self.objectives.items() if start else ()
        return next(
            (
                name
                for name, objective in objectives
                if objective.model_dump(exclude_none=True) == start
            ),
            None,
        )

    @property
    def compared(self) -> list[str]:
        """Names of the objectives that evaluate other networks, such as the user's current
        model.
        """
        return [
            name
            for name, objective in self.objectives.items()
            if not objective.TRAINED
            and (getattr(objective, "encoder", None) or getattr(objective, "text_encoder", None))
        ]

    @property
    def seed_list(self) -> list[int]:
        """The seeds as a list, whether given as a count or a list."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    @property
    def selected_by(self) -> Measurement:
        """The measurement by which tuning selects a variant of each objective; without tuning, the
        primary one.
        """
        by = self.tuning.by if self.tuning is not None else None
        return (by or self.primary).measurement

    @property
    def class_groups(self) -> tuple[str, ...]:
        """Groups of classes that monitors tell apart."""
        return ("",)

    @property
    def is_rated(self) -> bool:
        """Whether people have rated which pairs of the data match."""
        return False

    @property
    def has_true_etas(self) -> bool:
        """Whether the class probabilities of its data can be compared with the true ones."""
        return False

    @property
    def provided(self) -> Mapping[str, bool]:
        """For each possible need of an evaluation task, a figure or an objective, whether the data
        meet it.
        """
        return {}

    @property
    def same_text(self) -> str:
        """The ``same_text`` of objectives on pairs that do not set it."""
        return "keep"

    @property
    def positives_by_label(self) -> bool:
        """Whether positives are drawn by label, so that every training uses labels."""
        return False

    def labels_used(self, name: str) -> str:
        """Return what an objective's training uses labels for: ``positives``, ``loss``, both, or
        ``nothing``.
        """
        objective = self.objectives[name]
        used = {
            "positives": objective.TRAINED and self.positives_by_label,
            "loss": objective.uses_labels,
        }
        return ", ".join(part for part, is_used in used.items() if is_used) or "nothing"

    def sections_of(self, objective: Settings) -> dict[str, Any]:
        """Return the settings of an objective's runs, except the data set's: :attr:`SECTIONS` and
        the objective itself.
        """
        if getattr(objective, "same_text", False) is None:
            objective = objective.model_copy(update={"same_text": self.same_text})
        return {section: getattr(self, section) for section in self.SECTIONS} | {
            "objective": objective
        }

    def negatives(self, batch_size: int) -> int:
        """Return N, the number of negatives of an anchor."""
        return batch_size - 1

    @classmethod
    def reading(cls, dataset: Section) -> Section:
        """Return the settings of a data set that determine what is read from its source."""
        # If unset, newer keys are left out, so that no job is rerun.
        newer = ("split_column", "group_column", "negative_image_columns")
        unset = {key for key in newer if dataset.get(key) is None}
        left_out = unset.union(cls.SPLITTING)
        return {key: value for key, value in dataset.items() if key not in left_out}

    @classmethod
    def naming(cls, dataset: Section) -> Section:
        """Return those of :meth:`reading` that are part of the name of what was read."""
        return cls.reading(dataset)

    @classmethod
    def data_key(cls, dataset: Section) -> str:
        """Return the name of what is read from a source, shared by all studies that read the same
        with the same settings.
        """
        resolution = dataset.get("resolution")
        size = f"-{resolution}px" if resolution else ""
        return f"{dataset['source']}{size}-{short_digest(cls.naming(dataset))}"

    @classmethod
    def data_place(cls, dataset: Section) -> str:
        """Return the path of what is read from a source in the results folder, without suffix."""
        return f"{cls.FOLDER}/{cls.data_key(dataset)}"

    @classmethod
    def data_parts(cls, source: str) -> list[str]:
        """Return the names of the versions of the code that reads a source."""
        return [f"{cls.SAMPLES}/{source}"]

    @classmethod
    def regions(cls, settings: RunSettings) -> str:
        """Return what a run uses the vectors of image regions for: ``needed``, ``for boxes``, or
        nothing.
        """
        return ""


def short_digest(value: Any) -> str:
    """Return six hexadecimal digits that change with a value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:6]
