"""Settings shared by studies that train: primary comparison, seeds, sweeps, resources, published tables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, model_validator

from trueneg.specs.resources import JobResources, ResumableResources
from trueneg.specs.settings import (
    AtLeastTwo,
    Count,
    EachOnce,
    Integer,
    Real,
    Seed,
    Settings,
    Study,
    Sweepable,
    technical,
    values_of,
)
from trueneg.specs.tasks.base import Task
from trueneg.stats.measurement import KEYS, Measurement

CONDITIONS = "swept settings of `training` to compare side by side, as data sets are; others are selected on validation"


class Training(JobResources, ResumableResources):
    """Training length and resources."""

    epochs: Sweepable[Count] | None = Field(None, description="passes over the training images or studies (or state `updates`)")
    updates: Sweepable[Count] | None = Field(
        None, description="optimiser steps, in place of `epochs`, for equal work on data sets of different sizes"
    )
    batch_size: Sweepable[AtLeastTwo]
    seeds_per_job: Count = technical(8, "seeds that one job trains, so that imports and compilation are paid once")
    runs_per_device: Count = technical(1, "jobs that share a GPU that small steps leave idle; multiply Snakemake's `gpu` by it")
    devices: Count = technical(1, "GPUs per run, each with an equal part of every batch; rounding and dropout draws differ")

    @model_validator(mode="after")
    def _one_length(self):
        if (self.epochs is None) == (self.updates is None):
            raise ValueError(" needs exactly one of epochs and updates")
        return self

    @model_validator(mode="after")
    def _devices_share_batches(self):
        parts = self.devices * getattr(self, "chunks", 1)  # only some kinds of training have chunks
        for size in values_of(self.batch_size):
            if self.devices > 1 and size % parts:
                raise ValueError(f".devices is {self.devices}, expected that batches of {size} split into {parts} equal parts")
        return self


class EvaluationResources(JobResources):
    """Resources for an evaluation."""

    runtime: Count = technical(30, "minutes that a job may take on a cluster")

    if TYPE_CHECKING:  # sections of the discovered tasks

        def __getattr__(self, name: str) -> Any: ...


class MeasurementSettings(Settings):
    """A measurement of the study's evaluation, identified by the key columns of its rows."""

    task: str
    metric: str
    labels: str | None = Field(
        None,
        description="training images that lend their labels: all, imbalanced; of a retrieval, what is relevant: report, truth, …",
    )
    fraction: Annotated[Real, Field(gt=0, le=1)] | None = Field(None, description="share of the labels, of a classifier")
    direction: str | None = Field(None, description="of a retrieval, such as text to image; none: the mean of both")
    k: Count | None = Field(None, description="length of the list, of R and Prec; none: the mean over all")
    group: str | None = Field(None, description="a class, rare or common; none: all classes")

    @property
    def measurement(self) -> Measurement:
        """The measurement as a key of rows."""
        return Measurement(**{key: getattr(self, key) for key in KEYS})


class Contrast(Settings):
    """Two objectives to compare."""

    treatment: str = Field(description="objective whose gain is asked for")
    baseline: str = Field(description="objective that it is compared with")


class PrimaryContrast(Contrast, MeasurementSettings):
    """The study's primary comparison, fixed before it runs; all other comparisons are exploratory."""

    dataset: str | None = Field(None, description="label of the data set, such as fraction=0.1; none: the only one")
    oracle: str | None = Field(
        None, description="objective of the gate, which must beat the baseline; none where no truth is known: only chance counts"
    )
    published: Real | None = Field(None, description="the published difference, to compare with the minimum detectable one")


class Published(Settings):
    """Published numbers to compare with the study's results."""

    paper: str = Field(description="as in the column paper of config/published.csv")
    table: str = Field(description="as in the column table")
    task: str = Field(description="as in the column task")
    methods: dict[str, str] = Field(description="objective, and its entry in the column method")


class TrainedStudy(Study):
    """A study with one run per data set × objective × seed.

    A list in place of a single value is a sweep: under ``dataset`` it defines several data sets; under one of
    :attr:`SECTIONS` or an objective, it defines variants of each objective.
    """

    SECTIONS: ClassVar[tuple[str, ...]]  # with the objective, these define a variant; ``training`` is included
    TASKS: ClassVar[Mapping[str, type[Task]]]  # tasks available to its evaluation

    seeds: Annotated[Integer, Field(ge=1, le=10_000)] | Annotated[list[Seed], Field(min_length=1), EachOnce] = Field(
        description="how many seeds (0, 1, …), or a list of them"
    )
    if TYPE_CHECKING:  # each kind of study has its own types
        dataset: Any
        training: Training
        conditions: list[Any]
        objectives: dict[str, Any]
        evaluation: Any
        primary: PrimaryContrast
        figures: Any

    @property
    def seed_list(self) -> list[int]:
        """The seeds as a list, whether given as a count or a list."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    def sections_of(self, objective: Settings) -> dict[str, Any]:
        """Return the settings of an objective's runs except the data: :attr:`SECTIONS` and the objective."""
        return {section: getattr(self, section) for section in self.SECTIONS} | {"objective": objective}
