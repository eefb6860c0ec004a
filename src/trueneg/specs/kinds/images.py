"""The typed model of an image study.

A list in place of a single value is a sweep: lists under ``dataset`` define several data sets;
lists under ``encoder``, ``projection``, ``augmentation``, ``training`` or an objective define
several variants of each objective.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from trueneg.specs import tasks
from trueneg.specs.discovery import union_of
from trueneg.specs.encoders import (
    FROZEN,
    IMAGE_TOWERS,
    ImageEncoder,
    ImageTowerSettings,
    VectorSettings,
    one_network,
)
from trueneg.specs.kinds.trained import (
    CONDITIONS,
    UNTRAINED,
    OracleName,
    Panels,
    PrimarySettings,
    SharedTrainingSettings,
    TrainedStudy,
)
from trueneg.specs.objectives import OF_TWO_VIEWS
from trueneg.specs.objectives.released import UntrainedImages
from trueneg.specs.sections import Section
from trueneg.specs.settings import (
    AtLeastTwo,
    Boolean,
    Count,
    Fraction,
    Integer,
    Leakage,
    Name,
    NonNegative,
    OpenFraction,
    PathText,
    Positive,
    Settings,
    Share,
    SkipIncomplete,
    Sweepable,
    Technical,
    at_defaults,
    values_of,
)
from trueneg.specs.sources import IMAGE_SOURCES, WITHOUT_TEST_IMAGES

Resolution = Annotated[Integer, Field(ge=4, le=1024)]
Condition = Literal["batch_size", "temperature", "learning_rate", "epochs", "updates"]
if TYPE_CHECKING:  # type checkers cannot see sources, tasks and objectives discovered at import
    from typing import Any as AnyObjective
    from typing import Any as EvaluationSettings
    from typing import Any as Source
    from typing import Any as TaskName
else:
    Source = Literal[IMAGE_SOURCES]
    TaskName = Literal[tasks.names_in_rows(tasks.IMAGES)]
    AnyObjective = union_of("name", *OF_TWO_VIEWS, UntrainedImages)
    EvaluationSettings = tasks.evaluation_section(
        "EvaluationSettings", "Evaluations of the frozen encoder.", tasks.IMAGES
    )


class DatasetSettings(Settings):
    """Images, their splits and the imbalance: CIFAR10-r keeps a fraction r of the training images
    of the rare classes.
    """

    source: Technical[Source] = Field(
        description="source of the images: " + ", ".join(IMAGE_SOURCES)
    )
    path: Technical[PathText | None] = None
    """folder of the source's files, relative to the working directory"""
    download: Technical[Boolean] = False
    """download the source into `path` if it is missing"""
    resolution: Sweepable[Resolution] | None = None
    """side of resized images in pixels; none: original size"""
    images_per_class: Sweepable[Count] | None = None
    """maximum training images per class, before thinning"""
    rare_classes: list[Integer | str] = Field([])
    """classes to thin out, by number or name"""
    fraction: Sweepable[Fraction] = 1.0
    """r: fraction of the images of a rare class to keep"""
    test: OpenFraction | None = None
    """fraction held out if there are no official test images; required for own images; none: 0.25
    for digits
    """
    validation: Share = 0.1
    """fraction of the training images held out, unless the data have a split; 0: none"""
    leakage: Leakage = None
    unlabelled: Count | None = None
    """n: also train on the first n of stl10's 100,000 unlabelled images"""
    skip_incomplete: SkipIncomplete = False
    """own images: how many unreadable ones to skip at most; a number, a share, true (a tenth) or
    false (none)
    """

    @property
    def resplit(self) -> bool:
        """Whether each seed holds out different test images of the same data: true without official
        test images.
        """
        return self.test is not None or self.source in WITHOUT_TEST_IMAGES


class ProjectionSettings(Settings):
    """Projection head, removed after training; on a frozen tower, only the head is trained, and it
    is kept.
    """

    name: Sweepable[Literal["mlp", "residual", "linear"]] = "mlp"
    """mlp: two layers; residual: the features plus two layers that start at 0; linear: one layer"""
    hidden: Sweepable[Count] = 512
    """width of the hidden layer"""
    dimensions: Sweepable[AtLeastTwo] | None = 128
    """size of the embedding; none: that of the features"""
    batch_norm: Sweepable[Boolean] = True
    """batch normalisation of the hidden layer of mlp"""
    dropout: Sweepable[Share] = 0.0
    """dropout probability of the hidden layer"""


class AugmentationSettings(Settings):
    """Random augmentation that produces the two views of an image."""

    name: Sweepable[Literal["color", "digits", "none"]]
    """color: crop, flip, colour jitter, greyscale (natural images); digits: affine, brightness,
    noise; none: off
    """
    size: Sweepable[Resolution] | None = None
    """side of the views of `color` in pixels; none: the images' size"""
    blur: Sweepable[Share] = 0.0
    """probability of a 3×3 Gaussian blur in `color`; the DCL code's is 0.5"""


class TrainingSettings(SharedTrainingSettings):
    """Optimisation settings and resources for training."""

    batch_size: Sweepable[AtLeastTwo] = 128
    """images per step, two views each; N = 2·batch_size − 2 negatives"""
    learning_rate: Sweepable[Positive] = 1e-3
    """learning rate of Adam"""
    weight_decay: Sweepable[NonNegative] = 1e-6
    """weight decay of Adam (L2 in the gradient)"""
    schedule: Sweepable[Literal["constant", "cosine"]] = "constant"
    """learning rate schedule"""
    temperature: Sweepable[Positive] = 0.5
    """t: temperature, which divides similarities; the papers' γ is 1/√t"""
    compile: Technical[Boolean] = False
    """use torch.compile: faster on a GPU, but needs a C++ compiler"""


class ImageContrast(PrimarySettings):
    """The study's primary comparison, fixed before it runs; others are exploratory, unless
    `contrasts` gives them a family.
    """

    task: TaskName = "linear probe"
    """evaluation task"""
    metric: str = "accuracy"
    """metric; accuracy: fraction of images that are classified correctly"""
    labels: str | None = "all"
    """label pool: all training images, or the imbalanced subset"""
    oracle: OracleName = None
    """objective whose gain is the headroom; none: unknown headroom; required without
    dataset.unlabelled
    """


class DatasetFigure(Settings):
    """A figure of a single data set."""

    dataset: str | None = None
    """label of the data set; none: the primary contrast's"""


class EmbeddingFigure(Panels, DatasetFigure):
    """t-SNE of the test images."""

    images: Count = 2000
    """maximum number of test images"""


class FigureSettings(Settings):
    """Optional figures; accuracy against r, training curves and monitors are always drawn."""

    embedding: EmbeddingFigure | None = None
    """t-SNE panels of test images (Sample-Specific Debiasing, Fig. 4)"""
    label_fractions: DatasetFigure | None = None
    """accuracy by label fraction (Sample-Specific Debiasing, Fig. 2, right)"""


class ImageStudy(TrainedStudy):
    """An image study: data, objectives, seeds, evaluation, figures and the primary comparison."""

    CHECKED_BY = "trueneg.config.checks.images:contradictions"
    SECTIONS = ("encoder", "projection", "augmentation", "training")
    TASKS = tasks.IMAGES
    SAMPLES = "images"
    FOLDER = "sources"
    READER = "trueneg.data.images.image_source:read_source"
    SPLITTER = "trueneg.data.images.subsets:image_subset"
    TRAINING = "trueneg.training.simclr:SimCLR"
    AUGMENTATION = "trueneg.training.augment:build_augmentation"
    EXPORTED_BY = "trueneg.training.export:image_encoder"
    FALSE_NEGATIVES = "trueneg.data.false_negatives:of_views"
    FIRST_LOOK = "trueneg.data.images.loading:first_look"
    PASSES = ("encoder", "encoder")
    # Measured for CIFAR variants at 32 pixels; small networks per unit of width squared.
    PER_PIXEL = MappingProxyType(
        {
            "resnet18": 1.11 / 32**2,
            "resnet50": 2.60 / 32**2,
            "small_resnet": 0.0250 / 32**2 / 16**2,
        }
    )
    TABLES = ("accuracy",)
    two_views = True

    kind: Literal["images"] = "images"
    """images: train encoders on two views of each image, as in SimCLR"""
    dataset: DatasetSettings
    encoder: ImageEncoder
    projection: ProjectionSettings = Field(default_factory=ProjectionSettings)
    augmentation: AugmentationSettings
    training: TrainingSettings
    conditions: list[Condition] = Field([], description=CONDITIONS)
    objectives: dict[Name, AnyObjective] = Field(min_length=2)
    evaluation: EvaluationSettings = Field(default_factory=EvaluationSettings)
    primary: ImageContrast
    figures: FigureSettings = Field(default_factory=FigureSettings)

    @property
    def class_groups(self) -> tuple[str, ...]:
        return ("common", "rare") if self.dataset.rare_classes else ("common",)

    @model_validator(mode="after")
    def _frozen_tower_has_views(self):
        encoder = self.encoder
        if (
            isinstance(encoder, ImageTowerSettings)
            and encoder.train == FROZEN
            and encoder.views is None
        ):
            raise ValueError(
                ".encoder.train is none, so the tower is computed once, but two views of an image"
                " are positives of each other; set encoder.views to the number of augmented"
                " versions to compute for each image, at least 2, or train to all"
            )
        if getattr(encoder, "views", None) is not None and "none" in values_of(
            self.augmentation.name
        ):
            raise ValueError(
                ".augmentation.name is none, so that all encoder.views of an image would be the"
                " same; choose another"
            )
        if isinstance(encoder, VectorSettings) and self.augmentation.name != "none":
            raise ValueError(
                f".augmentation.name is {self.augmentation.name}, but vectors are not augmented;"
                " set it to none"
            )
        return self

    @classmethod
    def before_training(cls, keys: Section) -> Section | None:
        encoder = keys.get("encoder")
        is_tower = isinstance(encoder, Mapping) and str(encoder.get("name")) in IMAGE_TOWERS
        return {"name": UNTRAINED} if is_tower and one_network(encoder, encoder) else None

    def sections_of(self, objective: Settings) -> dict[str, Any]:
        sections = super().sections_of(objective)
        if sections["objective"].TRAINED:
            return sections
        # Reset settings that only affect training to their defaults, so that they do not enter the
        # run's identity.
        unused = ("projection", "training", "objective")
        encoder = sections["objective"].encoder or self.encoder
        return (
            sections | {name: at_defaults(sections[name]) for name in unused} | {"encoder": encoder}
        )

    def negatives(self, batch_size: int) -> int:
        return 2 * batch_size - 2

    @classmethod
    def reading(cls, dataset: Section) -> Section:
        # If unset, newer keys are left out, so that no job is rerun.
        newer = {key: dataset[key] for key in ("unlabelled", "skip_incomplete") if dataset.get(key)}
        keys = ("source", "path", "resolution", "download")
        return {key: dataset[key] for key in keys if key in dataset} | newer

    @classmethod
    def naming(cls, dataset: Section) -> Section:
        return {key: value for key, value in cls.reading(dataset).items() if key != "download"}

    @classmethod
    def data_parts(cls, source: str) -> list[str]:
        return [f"decoding/{source}"]
