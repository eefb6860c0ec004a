"""The typed model of an image–text study.

A list where one value is expected is a sweep: lists under ``dataset`` make several data sets; lists under ``encoder``,
``text_encoder``, ``projection``, ``similarity``, ``augmentation``, ``training`` or an objective make several variants of each
objective.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import Field, model_validator

from trueneg.config.trained_study import (
    EvaluationResources,
    MeasurementSettings,
    PrimaryContrast,
    TrainedStudy,
    TrainingResources,
)
from trueneg.specs import tasks
from trueneg.specs.encoders import AnyTextEncoder, SpatialEncoder
from trueneg.specs.objectives import OF_PAIRS, union_of
from trueneg.specs.objectives.base import Directed
from trueneg.specs.objectives.released import Released
from trueneg.specs.pairs import AnyPairs
from trueneg.specs.settings import (
    AtLeastTwo,
    Boolean,
    Count,
    CountFromZero,
    Fraction,
    Name,
    NonNegative,
    Positive,
    Settings,
    Share,
    Sweepable,
    at_defaults,
    technical,
    values_of,
)

CLIP_STRIDE = 32  # pixels of an image to a cell of CLIP's grid


class ImageTextProjectionSettings(Settings):
    """From both encoders to the space that they share."""

    name: Sweepable[Literal["linear", "mlp", "released"]] = Field(
        "linear", description="linear; mlp: two layers; released: those that both encoders were released with (clip)"
    )
    dimensions: Sweepable[AtLeastTwo] = Field(
        128, description="D, size of the shared space; of released projections it is what it is"
    )


class SimilaritySettings(Settings):
    """How alike an image and a sentence are; lse and nl are a reconstruction (see the protocol's gaps)."""

    aggregation: Sweepable[Literal["global", "lse", "nl", "lse+nl"]] = Field(
        "global", description="global: cosine of the pooled image; lse, nl: over its regions"
    )
    lse_sharpness: Sweepable[Positive] | None = Field(None, description="r of the log-sum-exp; needed for lse")
    attention_scale: Sweepable[Positive] | None = Field(None, description="of the non-local attention; needed for nl")
    learned_maps: Boolean = Field(False, description="linear maps of the regions as nl's queries and values")
    combined: Literal["scores", "losses"] = Field("scores", description="of lse+nl: the mean of the scores, or a loss of each")
    logit_scale: Sweepable[Positive] = Field(14.0, description="what similarities are multiplied with, at first (γ² there)")
    learned_logit_scale: Boolean = Field(True, description="whether it is trained")
    maximum_logit_scale: Positive = Field(100.0, description="its largest value")

    @model_validator(mode="after")
    def _numbers_where_needed(self):
        kinds = self.aggregation if isinstance(self.aggregation, list) else [self.aggregation]
        for part, key in (("lse", "lse_sharpness"), ("nl", "attention_scale")):
            wanted = [part in kind.split("+") for kind in kinds]
            if any(wanted) != (getattr(self, key) is not None) or (any(wanted) and not all(wanted)):
                raise ValueError(f".{key} is needed where aggregation has {part}, and only there")
        if self.learned_maps and not all("nl" in kind for kind in kinds):
            raise ValueError(".learned_maps is true, but only the aggregation nl has maps; set it to false")
        return self


class RadiographAugmentationSettings(Settings):
    """Random crop, brightness and contrast: nothing that a sentence may contradict."""

    crop: Sweepable[Fraction] = Field(0.9375, description="side of the crop as a share of the image's (480 of 512)")
    brightness: Sweepable[Share] = Field(0.2, description="factors are uniform in 1 ± this")
    contrast: Sweepable[Share] = Field(0.2, description="likewise")


class ImageTextTrainingSettings(TrainingResources):
    """The optimisation, and the resources it may use."""

    kind: Literal["image-text"] = Field("image-text", description="pairs of an image and a sentence")
    epochs: Sweepable[Count] | None = Field(None, description="passes over the training images or studies (or state `updates`)")
    updates: Sweepable[Count] | None = Field(None, description="optimiser steps, in place of `epochs`")
    unit: Sweepable[Literal["image", "study"]] = Field(
        "image", description="what an epoch draws one pair of: an image (first paper) or a study (ReCo)"
    )
    batch_size: Sweepable[AtLeastTwo] = Field(64, description="pairs a step; N = batch_size − 1 negatives")
    chunks: Count = technical(1, "parts that a batch is encoded in, to save memory; the negatives are those of the whole batch")
    optimizer: Sweepable[Literal["adamw", "adam"]] = Field("adamw", description="with decay of matrices only")
    learning_rate: Sweepable[Positive] = Field(1e-5, description="of the optimiser")
    weight_decay: Sweepable[NonNegative] = Field(0.01, description="of matrices")
    warmup_updates: CountFromZero = Field(0, description="updates of a linearly rising rate")
    schedule: Sweepable[Literal["constant", "cosine"]] = Field("cosine", description="of the rate, after the warm-up")


class ReleasedObjective(Released):
    """No training: released networks are measured as they are, with their own projections."""

    encoder: SpatialEncoder | None = Field(None, description="in place of the study's `encoder`")
    text_encoder: AnyTextEncoder | None = Field(None, description="in place of the study's `text_encoder`")

    def sections(self, given: dict[str, Settings]) -> dict[str, Settings]:
        """A study's sections as they are for this objective: what would only shape a training says nothing."""
        own = {name: getattr(self, name) for name in ("encoder", "text_encoder") if getattr(self, name) is not None}
        return {
            **given,
            **own,
            "projection": ImageTextProjectionSettings(name="released"),
            "similarity": at_defaults(given["similarity"], "aggregation", "lse_sharpness", "attention_scale"),
            "training": at_defaults(given["training"]),
            "objective": at_defaults(self),
        }


if TYPE_CHECKING:  # a type checker cannot know the tasks and objectives that are found
    AnyObjective = Directed
    ImageTextEvaluationSettings = EvaluationResources
    TaskName = str
else:
    AnyObjective = union_of(*OF_PAIRS, ReleasedObjective)
    ImageTextEvaluationSettings = tasks.evaluation_section(
        "ImageTextEvaluationSettings", "What is measured on the finished networks.", EvaluationResources, tasks.PAIRS
    )
    TaskName = Literal[tasks.names_in_rows(tasks.PAIRS)]


class ImageTextMeasurement(MeasurementSettings):
    """One of the evaluation's measurements, as the rows name it."""

    task: TaskName = Field("zero-shot", description="evaluation")
    metric: str = Field("AUC", description="such as AUC, ACC, R, MedR, Prec, CNR, mIoU")


class ImageTextContrast(PrimaryContrast, ImageTextMeasurement):
    """The one comparison that the study is for, named before it runs; everything else is exploratory."""

    oracle: str | None = Field(
        None,
        description="objective of the gate: unless it beats the baseline, the study is uninformative; none: where no truth is "
        "known, and the gate asks for a baseline above chance alone",
    )

    @model_validator(mode="after")
    def _known_chance(self):
        of_recall = self.metric == "R" and self.k is not None and self.direction is not None
        if (self.task, self.metric) not in tasks.CHANCE and not of_recall:
            known = [metric for task, metric in tasks.CHANCE if task == self.task]
            raise ValueError(
                f".metric is {self.metric!r}, expected one whose level of chance is known: "
                f"{', '.join([*known, 'R with a direction and a k'])}"
            )
        return self


class Contrast(Settings):
    """Two objectives to compare besides the primary ones."""

    treatment: str = Field(description="objective whose gain is asked for")
    baseline: str = Field(description="objective that it is compared with")


class OverlayFigure(Settings):
    """Heatmaps of some phrases over their images, with boxes."""

    objectives: list[str] = Field(min_length=1, description="one column each")
    phrases: Count = Field(6, description="how many, of different findings as far as there are")


class HistogramFigure(Settings):
    """Similarities of pairs, of false and of true negatives."""

    objectives: list[str] = Field(min_length=1, description="one panel each")


class ImageTextFigures(Settings):
    """Which optional figures to draw."""

    overlays: OverlayFigure | None = Field(None, description="grounding overlays")
    similarities: HistogramFigure | None = Field(None, description="similarity histograms (ReCo's Fig. 4)")


class PublishedMeasurement(Settings):
    """Printed numbers that one of the study's measurements stands beside."""

    paper: str = Field(description="as in the column paper of config/published.csv")
    table: str = Field(description="as in the column table")
    task: str = Field(description="as in the column task")
    setting: str = Field(description="as in the column setting")
    metric: str = Field(description="as in the column metric")
    methods: dict[str, str] = Field(description="objective, and its entry in the column method")
    percent: Boolean = Field(False, description="whether the printed numbers are in %, where ours are shares")
    measured: ImageTextMeasurement = Field(description="ours")


class ImageTextStudy(TrainedStudy):
    """Images and the sentences of their reports: data, networks, objectives, seeds, evaluation, and the one question."""

    SECTIONS = ("encoder", "text_encoder", "projection", "similarity", "augmentation", "training")

    kind: Literal["image-text"] = Field(description="image-text: encoders of images and of sentences, trained together")
    dataset: AnyPairs
    encoder: SpatialEncoder
    text_encoder: AnyTextEncoder
    projection: ImageTextProjectionSettings = Field(default_factory=ImageTextProjectionSettings)
    similarity: SimilaritySettings = Field(default_factory=SimilaritySettings)
    augmentation: RadiographAugmentationSettings = Field(default_factory=RadiographAugmentationSettings)
    training: ImageTextTrainingSettings
    conditions: list[Literal["batch_size", "learning_rate", "epochs", "updates", "unit"]] = Field(
        [], description="swept settings of `training` to compare within, as within data sets; others are chosen on validation"
    )
    objectives: dict[Name, AnyObjective] = Field(min_length=2)
    evaluation: ImageTextEvaluationSettings = Field(default_factory=ImageTextEvaluationSettings)
    primary: ImageTextContrast
    contrasts: list[Contrast] = Field([], description="further comparisons, named beforehand; a table of their own")
    figures: ImageTextFigures = Field(default_factory=ImageTextFigures)
    published: list[PublishedMeasurement] = Field([], description="printed numbers to show beside ours")

    @model_validator(mode="after")
    def _networks_go_together(self):
        for name, objective in self.objectives.items():
            sections = self.sections_of(objective)
            encoder, text_encoder = sections["encoder"], sections["text_encoder"]
            if "released" in values_of(sections["projection"].name):
                _refuse_unshared(f".objectives.{name}", encoder, text_encoder)
            if objective.name == "biovil" and text_encoder.name == "clip":
                raise ValueError(f".objectives.{name} masks words, which needs a BERT, but text_encoder.name is 'clip'")
            smallest = round(min(values_of(sections["augmentation"].crop)) * min(values_of(self.dataset.resolution)))
            if encoder.name == "clip" and smallest < CLIP_STRIDE:
                raise ValueError(
                    f".objectives.{name} has the encoder clip, which needs crops of {CLIP_STRIDE} pixels, but those of "
                    f"dataset.resolution and augmentation.crop have {smallest}; raise one of them"
                )
        return self

    def sections_of(self, objective: Settings) -> dict[str, Settings]:
        sections = super().sections_of(objective)
        return objective.sections(sections) if isinstance(objective, ReleasedObjective) else sections


def _refuse_unshared(key: str, encoder: Settings, text_encoder: Settings) -> None:
    """Refuse released projections of encoders that were not released with any, or not together."""
    found = [f"{section}.name is {one.name!r}" for section, one in (("encoder", encoder), ("text_encoder", text_encoder))]
    if (encoder.name, text_encoder.name) != ("clip", "clip"):
        raise ValueError(
            f"{key} needs released projections of images and of texts to one space, but {' and '.join(found)}; expected "
            "'clip' of both, which has them. Others hold none, or in a layout of their own (BioViL), which is not read: "
            "train a projection (projection.name linear or mlp, and an objective that trains)"
        )
    if encoder.weights is None or (encoder.model, encoder.weights) != (text_encoder.model, text_encoder.weights):
        given = ", ".join(f"{one.model} with weights {one.weights}" for one in (encoder, text_encoder))
        raise ValueError(
            f"{key} needs the projections that both encoders were released with, but encoder and text_encoder are {given}; "
            "expected the same model and weights of both"
        )
