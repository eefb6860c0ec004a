"""The typed model of an image study.

A list in place of a single value is a sweep: lists under ``dataset`` make several data sets; lists under ``encoder``,
``projection``, ``augmentation``, ``training`` or an objective make several variants of each objective.
"""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from trueneg.config.trained_study import CONDITIONS, EvaluationResources, PrimaryContrast, Published, TrainedStudy, Training
from trueneg.specs import tasks
from trueneg.specs.encoders import ImageEncoder
from trueneg.specs.objectives import OF_TWO_VIEWS, union_of
from trueneg.specs.objectives.base import TwoViews
from trueneg.specs.settings import (
    AtLeastTwo,
    Boolean,
    Count,
    Fraction,
    Integer,
    Name,
    NonNegative,
    OpenFraction,
    PathText,
    Positive,
    Settings,
    Sweepable,
    technical,
)
from trueneg.specs.sources import IMAGE_SOURCES

if TYPE_CHECKING:  # type checkers cannot see sources, tasks and objectives found at import
    Source = str
    TaskName = str
    AnyObjective = TwoViews
    EvaluationSettings = EvaluationResources
else:
    Source = Literal[IMAGE_SOURCES]
    TaskName = Literal[tasks.names_in_rows(tasks.IMAGES)]
    AnyObjective = union_of(*OF_TWO_VIEWS)
    EvaluationSettings = tasks.evaluation_section(
        "EvaluationSettings", "What is measured on the frozen encoder.", EvaluationResources, tasks.IMAGES
    )


class DatasetSettings(Settings):
    """Images, their splits and the imbalance: CIFAR10-r keeps a fraction r of the training images of the rare classes."""

    source: Source = technical(..., "where the images come from: " + ", ".join(IMAGE_SOURCES))
    path: PathText | None = technical(None, "folder of the source's files, relative to the working directory")
    download: Boolean = technical(False, "fetch the source into `path` when it is not there (needs internet)")
    resolution: Sweepable[Annotated[Integer, Field(ge=4, le=1024)]] | None = Field(
        None, description="side of the resized images, in pixels; none: original size"
    )
    images_per_class: Sweepable[Count] | None = Field(None, description="most training images per class, before the imbalance")
    rare_classes: list[Integer | str] = Field([], description="classes to thin out, by number or by name")
    fraction: Sweepable[Fraction] = Field(1.0, description="r: the share of a rare class's images that is kept")
    test: OpenFraction | None = Field(None, description="share held out for testing, of sources without an official test split")
    validation: OpenFraction = Field(0.1, description="share of the training images held out for validation")


class ProjectionSettings(Settings):
    """Two-layer projection head, removed after training."""

    hidden: Sweepable[Count] = Field(512, description="width of the hidden layer")
    dimensions: Sweepable[AtLeastTwo] = Field(128, description="size of the embedding")
    batch_norm: Sweepable[Boolean] = Field(True, description="batch normalisation of the hidden layer")


class AugmentationSettings(Settings):
    """Augmentation that draws the two views of an image."""

    name: Sweepable[Literal["color", "digits", "none"]] = Field(
        description="color: crop, flip, colour jitter, greyscale (natural images); digits: affine, brightness, noise; none"
    )
    strength: Sweepable[Positive] = Field(1.0, description="scales the colour jitter, or the digits' distortions")


class TrainingSettings(Training):
    """Optimisation settings and resources for training."""

    batch_size: Sweepable[AtLeastTwo] = Field(128, description="images a step; two views each, so N = 2·batch_size − 2 negatives")
    learning_rate: Sweepable[Positive] = Field(1e-3, description="of the Adam optimiser")
    weight_decay: Sweepable[NonNegative] = Field(1e-6, description="of Adam (L2 in the gradient)")
    schedule: Sweepable[Literal["constant", "cosine"]] = Field("constant", description="of the learning rate")
    temperature: Sweepable[Positive] = Field(0.5, description="t; the papers' γ is 1/√t")
    compile: Boolean = technical(
        False, "torch.compile augmentation and network, once for all runs of a job: pays on a GPU; needs a C++ compiler"
    )

    @model_validator(mode="after")
    def _compiled_on_one_device(self):
        if self.devices > 1 and self.compile:
            raise ValueError(".compile is true, expected false where several devices share a batch")
        return self


class ImageContrast(PrimaryContrast):
    """The study's primary comparison, fixed before it runs; all other comparisons are exploratory."""

    task: TaskName = Field("linear probe", description="evaluation")
    metric: Literal["accuracy"] = Field("accuracy", description="the share of images that are recognised")
    labels: Literal["all", "imbalanced"] = Field("all", description="training images that lend their labels")
    oracle: str = Field(description="objective of the gate: unless it beats the baseline, the study is uninformative")


class PublishedTable(Published):
    """A published table to compare with: maps rows of config/published.csv to this study's results."""

    settings: dict[str, str] = Field(description="label of the data set or condition, and its entry in the column setting")


class EmbeddingFigure(Settings):
    """t-SNE of the test images (the first paper's Fig. 4)."""

    dataset: str | None = Field(None, description="label of the data set; none: the primary contrast's")
    objectives: list[str] = Field(min_length=1, description="one panel each")
    images: Count = Field(2000, description="at most so many test images")


class LabelFractionFigure(Settings):
    """Accuracy against the share of labels (the first paper's Fig. 2, right)."""

    dataset: str | None = Field(None, description="label of the data set; none: the primary contrast's")


class FigureSettings(Settings):
    """Optional figures to draw; accuracy against r, training curves and monitors are always drawn."""

    embedding: EmbeddingFigure | None = Field(None, description="t-SNE panels")
    label_fractions: LabelFractionFigure | None = Field(None, description="accuracy against the share of labels")


class ImageStudy(TrainedStudy):
    """An image study: data, objectives, seeds, evaluation, figures and the primary comparison."""

    SECTIONS = ("encoder", "projection", "augmentation", "training")
    TASKS = tasks.IMAGES

    kind: Literal["images"] = Field("images", description="images: encoders trained on one data set, as SimCLR is")
    dataset: DatasetSettings
    encoder: ImageEncoder
    projection: ProjectionSettings = Field(default_factory=ProjectionSettings)
    augmentation: AugmentationSettings
    training: TrainingSettings
    conditions: list[Literal["batch_size", "temperature", "learning_rate", "epochs", "updates"]] = Field(
        [], description=CONDITIONS
    )
    objectives: dict[Name, AnyObjective] = Field(min_length=2)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    primary: ImageContrast
    figures: FigureSettings = Field(default_factory=FigureSettings)
    published: PublishedTable | None = Field(None, description="a printed table to show beside the primary measurement")
