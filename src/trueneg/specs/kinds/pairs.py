"""The typed model of an image–text study.

A list in place of a single value is a sweep: lists under ``dataset`` define several data sets;
lists under ``encoder``, ``text_encoder``, ``projection``, ``similarity``, ``augmentation``,
``training`` or an objective define several variants of each objective.
"""

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from trueneg.specs import tasks
from trueneg.specs.discovery import union_of
from trueneg.specs.encoders import (
    FROZEN,
    AnyTextEncoder,
    BiovilEncoderSettings,
    SpatialEncoder,
    TowerSettings,
    VectorSettings,
    one_network,
)
from trueneg.specs.guides.base import LANGUAGE_MODEL
from trueneg.specs.kinds.trained import (
    CONDITIONS,
    Panels,
    PrimarySettings,
    SharedTrainingSettings,
    TrainedStudy,
)
from trueneg.specs.objectives import OF_PAIRS
from trueneg.specs.objectives.released import Released
from trueneg.specs.pairs import PAIRS, AnyPairs
from trueneg.specs.pairs.base import PairSettings
from trueneg.specs.sections import RunSettings, Section
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
    values_of,
)

# tasks with augmented or further images
ON_PIXELS = ("fine_tuning", "augmented_linear_probe", "chexpert_8x200")
Condition = Literal["batch_size", "learning_rate", "epochs", "updates", "unit"]
if TYPE_CHECKING:  # type checkers cannot see tasks and objectives discovered at import
    from typing import Any as AnyObjective
    from typing import Any as ImageTextEvaluationSettings
    from typing import Any as TaskName
else:
    TaskName = Literal[tasks.names_in_rows(tasks.PAIRS)]
    AnyObjective = union_of("name", *OF_PAIRS, Released)
    ImageTextEvaluationSettings = tasks.evaluation_section(
        "ImageTextEvaluationSettings",
        "Evaluations of the trained or released networks.",
        tasks.PAIRS,
    )


class ImageTextProjectionSettings(Settings):
    """Projections of both encoders into the shared space."""

    name: Sweepable[Literal["linear", "mlp", "residual", "none", "released"]] = "linear"
    """mlp: two layers; residual: a linear map, or none if sizes agree, plus two layers that start
    at 0; none: one layer for texts, none for images; released: BioViL's own, or the space that both
    open_clip towers share
    """
    dimensions: Sweepable[AtLeastTwo] = 128
    """D: size of the shared space; ignored if name is none or released"""
    hidden: Sweepable[Count] | None = None
    """width of the hidden layer of mlp and residual; none: D"""
    dropout: Sweepable[Share] = 0.0
    """dropout probability of the hidden layer"""


class ScaleSettings(Settings):
    """The scale of the cosine similarity of two samples."""

    logit_scale: Sweepable[Positive] = 14.0
    """initial multiplier of similarities (γ² in the papers)"""
    learned_logit_scale: Boolean = True
    """whether to train the logit scale"""
    maximum_logit_scale: Positive = 100.0
    """maximum of the logit scale"""


class SimilaritySettings(ScaleSettings):
    """Similarity between an image and a sentence; lse and nl are reconstructions (see
    docs/protocol-gaps.md).
    """

    aggregation: Sweepable[Literal["global", "lse", "nl", "lse+nl"]] = "global"
    """global: cosine similarity of the pooled image features; lse, nl: aggregated over image
    regions
    """
    lse_sharpness: Sweepable[Positive] | None = None
    """r of the log-sum-exp; required for lse"""
    attention_scale: Sweepable[Positive] | None = None
    """scale of the non-local attention; required for nl"""
    combined: Literal["scores", "losses"] = "scores"
    """lse+nl: loss on the mean score, or one loss per score"""

    @model_validator(mode="after")
    def _numbers_where_needed(self):
        kinds = values_of(self.aggregation)
        for part, key in (("lse", "lse_sharpness"), ("nl", "attention_scale")):
            if {part in kind for kind in kinds} != {getattr(self, key) is not None}:
                raise ValueError(
                    f".{key} must be set if aggregation contains {part}, and only then"
                )
        return self


class RadiographAugmentationSettings(Settings):
    """Random crop, brightness and contrast, which cannot contradict a sentence, and optionally
    ConVIRT's other changes.
    """

    crop: Sweepable[Fraction] = 0.9375
    """side of the crop relative to the image (480 of 512)"""
    brightness: Sweepable[Share] = 0.2
    """factors are uniform in 1 ± this value"""
    contrast: Sweepable[Share] = 0.2
    """factors are uniform in 1 ± this value"""
    evaluated: Literal["crop", "whole"] = "crop"
    """what evaluation sees: the central crop, or the whole image"""
    crop_area: Sweepable[Fraction] | None = None
    """smallest area of crops, resized to `crop`; none: unresized"""
    flip: Sweepable[Share] = 0.0
    """probability of a horizontal flip, which exchanges left and right"""
    rotation: Sweepable[NonNegative] = 0.0
    """angles are uniform in ± this value, in degrees"""
    translation: Sweepable[Share] = 0.0
    """translations are uniform in ± this share of the side"""
    scaling: Sweepable[Share] = 0.0
    """factors are uniform in 1 ± this value"""
    blur: Sweepable[NonNegative] = 0.0
    """largest standard deviation of a blur, in pixels; the smallest is 0.1"""


class PairTrainingSettings(SharedTrainingSettings):
    """Optimisation settings and resources for training on pairs."""

    batch_size: Sweepable[AtLeastTwo] = 64
    """pairs per step; N = batch_size − 1 negatives"""
    optimizer: Sweepable[Literal["adamw", "adam"]] = "adamw"
    """weight decay applies to matrices only"""
    learning_rate: Sweepable[Positive] = 1e-5
    """maximum learning rate"""
    weight_decay: Sweepable[NonNegative] = 0.01
    """weight decay of matrices"""
    warmup_updates: CountFromZero = 0
    """initial updates over which the learning rate rises linearly"""
    schedule: Sweepable[Literal["constant", "cosine"]] = "cosine"
    """learning rate schedule after the warm-up"""


class ImageTextTrainingSettings(PairTrainingSettings):
    """Optimisation settings and resources for training."""

    kind: Literal["image-text"] = "image-text"
    """trains on pairs of an image and a sentence"""
    unit: Sweepable[Literal["image", "study"]] = "image"
    """an epoch has one pair per image or per study (ReCo)"""


class ImageTextContrast(PrimarySettings):
    """The study's primary comparison, fixed before it runs; others are exploratory, unless
    `contrasts` gives them a family.
    """

    task: TaskName = "zero-shot"
    """evaluation task"""
    metric: str = "AUC"
    """metric with a chance level, such as AUC, R or CNR signed"""


class OverlayFigure(Panels):
    """Heatmaps of selected phrases over their images, with boxes; one column per objective."""

    phrases: Count = 6
    """number of phrases, covering as many findings as possible"""


class ImageTextFigures(Settings):
    """Optional figures."""

    overlays: OverlayFigure | None = None
    """heatmaps of phrases"""
    similarities: Panels | None = None
    """histograms of similarities (ReCo, Figs. 4 and 6)"""


class ImageTextStudy(TrainedStudy):
    """An image–text study: data, networks, objectives, seeds, evaluation and the primary
    comparison.
    """

    CHECKED_BY = "trueneg.config.checks.pairs:contradictions"
    SECTIONS = ("encoder", "text_encoder", "projection", "similarity", "augmentation", "training")
    TASKS = tasks.PAIRS
    SAMPLES = FOLDER = "pairs"
    SPLITTING = ("test", "validation", "leakage")
    READER = "trueneg.data.pairs.pair_source:read_pairs"
    SPLITTER = "trueneg.data.pairs.pair_splits:pair_subset"
    TRAINING = "trueneg.training.image_text:ImageText"
    AUGMENTATION = "trueneg.training.radiograph_augmentation:build_radiograph_augmentation"
    EXPORTED_BY = "trueneg.training.export:pair_encoders"
    FALSE_NEGATIVES = "trueneg.data.false_negatives:of_pairs"
    FIRST_LOOK = "trueneg.data.pairs.registry:first_look"
    PLANNED_NETWORKS = "trueneg.cli.planned_networks:planned_networks"
    PASSES = ("encoder", "text_encoder")
    # Measured for torchvision's networks at 224 pixels, and for small ones at 64, per unit of width
    # squared.
    PER_PIXEL = MappingProxyType(
        {
            "resnet18": 3.63 / 224**2,
            "resnet50": 8.17 / 224**2,
            "biovil": 8.17 / 224**2,
            "small": 0.0120 / 64**2 / 16**2,
        }
    )
    TABLES = ("tasks", "retrieval", "zero_shot", "precision", "grounding", "linear_evaluation")
    joins_reports = True
    draws_sweeps = True
    has_examples = True

    kind: Literal["image-text"]
    """image-text: train an image encoder and a text encoder together"""
    dataset: AnyPairs
    encoder: SpatialEncoder
    text_encoder: AnyTextEncoder
    projection: ImageTextProjectionSettings = Field(default_factory=ImageTextProjectionSettings)
    similarity: SimilaritySettings = Field(default_factory=SimilaritySettings)
    augmentation: RadiographAugmentationSettings = Field(
        default_factory=RadiographAugmentationSettings
    )
    training: ImageTextTrainingSettings
    conditions: list[Condition] = Field([], description=CONDITIONS)
    objectives: dict[Name, AnyObjective] = Field(min_length=2)
    evaluation: ImageTextEvaluationSettings = Field(default_factory=ImageTextEvaluationSettings)
    primary: ImageTextContrast
    figures: ImageTextFigures = Field(default_factory=ImageTextFigures)

    @classmethod
    def before_training(cls, keys: Section) -> Section | None:
        image: Any = keys.get("encoder")
        text = keys.get("text_encoder")
        is_shared = one_network(image, text) and all(
            isinstance(image.get(key), str) for key in ("model", "weights")
        )
        return {"name": "released"} if is_shared else None

    @model_validator(mode="after")
    def _compatible_networks(self):
        for name, objective in self.objectives.items():
            sections = self.sections_of(objective)
            image = sections["encoder"]
            text = sections["text_encoder"]
            projections = values_of(sections["projection"].name)
            shared = isinstance(image, TowerSettings) and image.name == text.name
            one_model = shared and all(
                getattr(image, key, None) == getattr(text, key, None)
                for key in ("model", "weights")
            )
            # Random weights can be trained, but not evaluated as released.
            one_model = one_model and (
                sections["objective"].TRAINED
                or "none" not in values_of(getattr(image, "weights", ()))
            )
            with_heads = one_model or (
                isinstance(image, BiovilEncoderSettings) and getattr(text, "projection", None)
            )
            if "released" in projections and not with_heads:
                raise ValueError(
                    f".objectives.{name} uses released projections, but encoder is ({image}) and"
                    f" text_encoder is ({text}); use open_clip for both, with the same model and"
                    " pretrained weights, or encoder biovil with text_encoder.projection"
                )
            frozen = [
                isinstance(tower, TowerSettings) and tower.train == FROZEN
                for tower in (image, text)
            ]
            if all(frozen) and "released" in projections and not isinstance(objective, Released):
                raise ValueError(
                    f".objectives.{name} trains nothing: both towers have train: none, and"
                    " projection.name is released; train one, or use another projection"
                )
            fine_tuned = [key for key in ON_PIXELS if getattr(self.evaluation, key, None)]
            if frozen[0] and fine_tuned:
                raise ValueError(
                    f".evaluation.{fine_tuned[0]} needs images, but for objectives.{name},"
                    " encoder.train is none, which leaves only stored vectors of the data; remove"
                    " it, or set encoder.train to all"
                )
            if sections["objective"].MASKS_WORDS and isinstance(text, TowerSettings):
                raise ValueError(
                    f".objectives.{name} masks words, which needs a BERT, but text_encoder.name is"
                    f" {text.name!r}"
                )
        is_frozen = isinstance(self.encoder, TowerSettings) and self.encoder.train == FROZEN
        if (
            is_frozen
            and getattr(self.encoder, "views", None) is None
            and self.augmentation != RadiographAugmentationSettings()
        ):
            raise ValueError(
                ".augmentation is set, but encoder.train is none, so images are not augmented;"
                " remove it, or set encoder.views to a number of augmented versions of each image"
            )
        return self

    @property
    def is_rated(self) -> bool:
        return self.dataset.rated

    @property
    def has_true_etas(self) -> bool:
        return self.dataset.truth_known

    @property
    def provided(self) -> dict[str, bool]:
        data: Any = self.dataset
        prompts = self.evaluation.zero_shot.prompts or PairSettings.label_names
        if isinstance(self.text_encoder, VectorSettings):  # nothing embeds prompts
            prompts = ()
        return {
            "boxes": data.boxed and not isinstance(self.encoder, VectorSettings),
            "greyscale images": data.greyscale,
            "known matches": data.truth_known,
            LANGUAGE_MODEL: True,
            "known class probabilities": data.probabilities_known,
            "labels": data.labelled,
            "labels with prompts": (
                data.labelled and any(name in prompts for name in data.label_names)
            ),
        }

    def sections_of(self, objective: Settings) -> dict[str, Any]:
        sections = super().sections_of(objective)
        if not isinstance(objective, Released):
            return sections
        # Reset settings that only affect training to their defaults, so that they do not enter the
        # run's identity.
        aggregation = (
            () if objective.aggregation else ("aggregation", "lse_sharpness", "attention_scale")
        )
        return sections | {
            "encoder": objective.encoder or self.encoder,
            "text_encoder": objective.text_encoder or self.text_encoder,
            "projection": ImageTextProjectionSettings(
                name="released" if objective.name == "released" else "none"
            ),
            "similarity": at_defaults(self.similarity, *aggregation),
            "training": at_defaults(self.training),
            "objective": at_defaults(objective),
        }

    def negatives(self, batch_size: int) -> int:
        hard: Any = getattr(self.dataset, "negative_image_columns", None) or ()
        return (1 + len(hard)) * batch_size - 1

    @classmethod
    def data_parts(cls, source: str) -> list[str]:
        return [f"pairs/{source}", f"reports/{source}", "splitter"]

    @classmethod
    def regions(cls, settings: RunSettings) -> str:
        if settings["similarity"]["aggregation"] != "global":
            return "needed"
        dataset = settings["dataset"]
        is_boxed = PAIRS[dataset["source"]].model_construct(**dataset).boxed
        return "for boxes" if is_boxed else ""
