"""The typed model of an image–text study.

A list in place of a single value is a sweep: lists under ``dataset`` make several data sets; lists under ``encoder``,
``text_encoder``, ``projection``, ``similarity``, ``augmentation``, ``training`` or an objective make several variants of each
objective.
"""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from trueneg.config.trained_study import (
    CONDITIONS,
    Contrast,
    EvaluationResources,
    MeasurementSettings,
    PrimaryContrast,
    Published,
    TrainedStudy,
    Training,
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

CLIP_STRIDE = 32  # image pixels per cell of CLIP's grid


class ImageTextProjectionSettings(Settings):
    """Projections of both encoders into the shared space."""

    name: Sweepable[Literal["linear", "mlp", "released"]] = Field(
        "linear", description="linear; mlp: two layers; released: those that both encoders were released with (clip)"
    )
    dimensions: Sweepable[AtLeastTwo] = Field(128, description="D, size of the shared space; ignored by released projections")


class SimilaritySettings(Settings):
    """Similarity of an image and a sentence; lse and nl are reconstructions (see the gaps listed in the protocol)."""

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
        kinds = values_of(self.aggregation)
        for part, key in (("lse", "lse_sharpness"), ("nl", "attention_scale")):
            wanted = [part in kind.split("+") for kind in kinds]
            if any(wanted) != (getattr(self, key) is not None) or (any(wanted) and not all(wanted)):
                raise ValueError(f".{key} is needed where aggregation has {part}, and only there")
        if self.learned_maps and not all("nl" in kind for kind in kinds):
            raise ValueError(".learned_maps is true, but only the aggregation nl has maps; set it to false")
        return self


class RadiographAugmentationSettings(Settings):
    """Random crop, brightness and contrast, which cannot contradict a sentence."""

    crop: Sweepable[Fraction] = Field(0.9375, description="side of the crop as a share of the image's (480 of 512)")
    brightness: Sweepable[Share] = Field(0.2, description="factors are uniform in 1 ± this")
    contrast: Sweepable[Share] = Field(0.2, description="likewise")


class ImageTextTrainingSettings(Training):
    """Optimisation settings and resources for training."""

    kind: Literal["image-text"] = Field("image-text", description="pairs of an image and a sentence")
    unit: Sweepable[Literal["image", "study"]] = Field(
        "image", description="an epoch draws one pair per image (first paper) or study (ReCo)"
    )
    batch_size: Sweepable[AtLeastTwo] = Field(64, description="pairs a step; N = batch_size − 1 negatives")
    chunks: Count = technical(1, "parts that a batch is encoded in, to save memory; the negatives are those of the whole batch")
    optimizer: Sweepable[Literal["adamw", "adam"]] = Field("adamw", description="with decay of matrices only")
    learning_rate: Sweepable[Positive] = Field(1e-5, description="of the optimiser")
    weight_decay: Sweepable[NonNegative] = Field(0.01, description="of matrices")
    warmup_updates: CountFromZero = Field(0, description="updates of a linearly rising rate")
    schedule: Sweepable[Literal["constant", "cosine"]] = Field("cosine", description="of the rate, after the warm-up")


class ReleasedObjective(Released):
    """No training: evaluates released networks unchanged, with their own projections."""

    encoder: SpatialEncoder | None = Field(None, description="in place of the study's `encoder`")
    text_encoder: AnyTextEncoder | None = Field(None, description="in place of the study's `text_encoder`")

    def sections(self, given: dict[str, Settings]) -> dict[str, Settings]:
        """Return a study's sections for this objective, with training-only settings at their defaults."""
        own = {name: getattr(self, name) for name in ("encoder", "text_encoder") if getattr(self, name) is not None}
        return {
            **given,
            **own,
            "projection": ImageTextProjectionSettings(name="released"),
            "similarity": at_defaults(given["similarity"], "aggregation", "lse_sharpness", "attention_scale"),
            "training": at_defaults(given["training"]),
            "objective": at_defaults(self),
        }


if TYPE_CHECKING:  # type checkers cannot see tasks and objectives found at import
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
    """One of the evaluation's measurements, identified as in the rows."""

    task: TaskName = Field("zero-shot", description="evaluation")
    metric: str = Field("AUC", description="such as AUC, ACC, R, MedR, Prec, CNR, mIoU")


class ImageTextContrast(ImageTextMeasurement, PrimaryContrast):
    """The study's primary comparison, fixed before it runs; all other comparisons are exploratory."""

    @model_validator(mode="after")
    def _known_chance(self):
        of_recall = self.metric == "R" and self.k is not None and self.direction is not None
        if (self.task, self.metric) not in tasks.CHANCE and not of_recall:
            known = [metric for task, metric in tasks.CHANCE if task == self.task]
            expected = ", ".join([*known, "R with a direction and a k"])
            raise ValueError(f".metric is {self.metric!r}, expected a metric with a known chance level: {expected}")
        return self


class OverlayFigure(Settings):
    """Heatmaps of selected phrases over their images, with boxes."""

    objectives: list[str] = Field(min_length=1, description="one column each")
    phrases: Count = Field(6, description="how many, of different findings as far as there are")


class HistogramFigure(Settings):
    """Histograms of the similarities of pairs, false negatives and true negatives."""

    objectives: list[str] = Field(min_length=1, description="one panel each")


class ImageTextFigures(Settings):
    """Optional figures to draw."""

    overlays: OverlayFigure | None = Field(None, description="grounding overlays")
    similarities: HistogramFigure | None = Field(None, description="similarity histograms (ReCo's Fig. 4)")


class PublishedMeasurement(Published):
    """Published numbers to compare with one of the study's measurements."""

    setting: str = Field(description="as in the column setting")
    metric: str = Field(description="value in the `metric` column of config/published.csv")
    percent: Boolean = Field(False, description="whether the printed numbers are in %, where ours are shares")
    measured: ImageTextMeasurement = Field(description="ours")


class ImageTextStudy(TrainedStudy):
    """An image–text study: data, networks, objectives, seeds, evaluation and the primary comparison."""

    SECTIONS = ("encoder", "text_encoder", "projection", "similarity", "augmentation", "training")
    TASKS = tasks.PAIRS

    kind: Literal["image-text"] = Field(description="image-text: encoders of images and of sentences, trained together")
    dataset: AnyPairs
    encoder: SpatialEncoder
    text_encoder: AnyTextEncoder
    projection: ImageTextProjectionSettings = Field(default_factory=ImageTextProjectionSettings)
    similarity: SimilaritySettings = Field(default_factory=SimilaritySettings)
    augmentation: RadiographAugmentationSettings = Field(default_factory=RadiographAugmentationSettings)
    training: ImageTextTrainingSettings
    conditions: list[Literal["batch_size", "learning_rate", "epochs", "updates", "unit"]] = Field([], description=CONDITIONS)
    objectives: dict[Name, AnyObjective] = Field(min_length=2)
    evaluation: ImageTextEvaluationSettings = Field(default_factory=ImageTextEvaluationSettings)
    primary: ImageTextContrast
    contrasts: list[Contrast] = Field([], description="additional pre-specified comparisons, reported in a separate table")
    figures: ImageTextFigures = Field(default_factory=ImageTextFigures)
    published: list[PublishedMeasurement] = Field([], description="printed numbers to show beside ours")

    @model_validator(mode="after")
    def _networks_go_together(self):
        for name, objective in self.objectives.items():
            sections = self.sections_of(objective)
            encoder, text_encoder = sections["encoder"], sections["text_encoder"]
            if "released" in values_of(sections["projection"].name):
                _require_shared_projections(f".objectives.{name}", encoder, text_encoder)
            if sections["objective"].name == "biovil" and text_encoder.name == "clip":
                raise ValueError(f".objectives.{name} masks words, which needs a BERT, but text_encoder.name is 'clip'")
            smallest = round(min(values_of(sections["augmentation"].crop)) * min(values_of(self.dataset.resolution)))
            if encoder.name == "clip" and smallest < CLIP_STRIDE:
                raise ValueError(
                    f".objectives.{name} has the encoder clip, which needs crops of {CLIP_STRIDE} pixels, but those of "
                    f"dataset.resolution and augmentation.crop have {smallest}; raise one of them"
                )
        return self

    def sections_of(self, objective: Settings) -> dict[str, Any]:
        sections = super().sections_of(objective)
        return objective.sections(sections) if isinstance(objective, ReleasedObjective) else sections


def _require_shared_projections(key: str, *encoders: Any) -> None:
    """Require one shared CLIP: other models have no released projections, or an unsupported layout (BioViL)."""
    released = [(one.model, one.weights) for one in encoders if one.name == "clip" and one.weights is not None]
    if len(released) < 2 or released[0] != released[1]:
        given = " and ".join(str(one.model_dump(include={"name", "model", "weights"})) for one in encoders)
        raise ValueError(
            f"{key} needs the released projections of images and texts to one space, but encoder and text_encoder are {given}; "
            "give both the name clip and the same model and weights, or train a projection"
        )
