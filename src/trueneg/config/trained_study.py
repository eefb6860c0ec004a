"""What studies that train have in common: the one question, seeds, sweeps, resources, printed tables to stand beside."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from trueneg.specs.settings import Count, CountFromZero, Integer, Positive, Real, Seed, Settings, Study, technical
from trueneg.stats.measurement import KEYS, Measurement


class TrainingResources(Settings):
    """What a training may use; no part of a run's identity."""

    seeds_per_job: Count = technical(8, "seeds that one job trains, so that imports and compilation are paid once")
    device: Literal["auto", "cpu", "cuda"] = technical("auto", "auto: a GPU where there is one, else the CPU, and says so")
    runs_per_device: Count = technical(
        1, "jobs that may share a GPU, where small steps leave it idle; give Snakemake so many times the devices as `gpu`"
    )
    devices: Count = technical(
        1, "GPUs of a run: so many processes share each batch, which they must divide; rounding and the draws of dropout differ"
    )
    threads: Count = technical(1, "intra-op threads of a training process")
    checkpoint_minutes: Positive = technical(5.0, "a training that is killed loses at most so much work")
    gpu: CountFromZero = technical(1, "Snakemake resource `gpu` of a training job, for each of its `devices`")
    mem_mb: Count = technical(4000, "memory of a training job, in MB; raised with each attempt")
    runtime: Count = technical(60, "minutes that a training job may take on a cluster")

    @model_validator(mode="after")
    def _one_length(self):
        if (self.epochs is None) == (self.updates is None):
            raise ValueError(" needs either epochs or updates, one of the two")
        return self

    @model_validator(mode="after")
    def _devices_share_batches(self):
        # A batch, and its parts where there are any, are settings of the kinds of training.
        given, chunks = getattr(self, "batch_size", 0), getattr(self, "chunks", 1)
        for size in given if isinstance(given, list) else [given]:
            if self.devices > 1 and size % (self.devices * chunks):
                raise ValueError(
                    f".devices is {self.devices}, which cannot share batches of {size}"
                    + (f" in {chunks} chunks" if chunks > 1 else "")
                    + "; take a divisor"
                )
        if self.devices > 1 and getattr(self, "compile", False):
            raise ValueError(".compile is true, which several devices do not go with; set it to false, or devices to 1")
        return self


class EvaluationResources(Settings):
    """What an evaluation may use."""

    threads: Count = technical(1, "intra-op threads of an evaluation process")
    mem_mb: Count = technical(4000, "memory of an evaluation job, in MB")
    runtime: Count = technical(30, "minutes that an evaluation job may take on a cluster")
    gpu: CountFromZero = technical(1, "Snakemake resource `gpu` of an evaluation job")

    if TYPE_CHECKING:  # the sections of the tasks that are found

        def __getattr__(self, name: str) -> Any: ...


class MeasurementSettings(Settings):
    """A measurement of the study's evaluation, by the key columns of its rows."""

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
        """As rows have it."""
        return Measurement(**{key: getattr(self, key) for key in KEYS})


class PrimaryContrast(MeasurementSettings):
    """The one comparison that the study is for, named before it runs; everything else is exploratory."""

    dataset: str | None = Field(None, description="label of the data set, such as fraction=0.1; none: the only one")
    treatment: str = Field(description="objective whose gain is asked for")
    baseline: str = Field(description="objective that it is compared with, in every table")
    oracle: str = Field(description="objective of the gate: unless it beats the baseline, the study is uninformative")
    published: Real | None = Field(None, description="the published difference, to compare with the minimum detectable one")


class PublishedTable(Settings):
    """The printed table that the study's results stand beside: which rows of config/published.csv belong to which of ours."""

    paper: str = Field(description="as in the column paper")
    table: str = Field(description="as in the column table")
    task: str = Field(description="as in the column task")
    settings: dict[str, str] = Field(description="label of the data set or condition, and its entry in the column setting")
    methods: dict[str, str] = Field(description="objective, and its entry in the column method")


class TrainedStudy(Study):
    """A study whose data sets × objectives × seeds are runs.

    A list where one value is expected is a sweep: under ``dataset`` it makes several data sets; under one of
    :attr:`SECTIONS` or an objective, variants of each objective.
    """

    SECTIONS: ClassVar[tuple[str, ...]]  # with an objective, what a variant settles; ``training`` is one of them

    seeds: Annotated[Integer, Field(ge=1, le=10_000)] | Annotated[list[Seed], Field(min_length=1)] = Field(
        description="how many seeds (0, 1, …), or a list of them"
    )

    @property
    def seed_list(self) -> list[int]:
        """The seeds, whether counted or listed."""
        return list(range(self.seeds)) if isinstance(self.seeds, int) else list(self.seeds)

    def sections_of(self, objective: Settings) -> dict[str, Settings]:
        """What the runs of one of the objectives are made of besides the data: :attr:`SECTIONS` and the objective."""
        return {section: getattr(self, section) for section in self.SECTIONS} | {"objective": objective}
