"""The typed model of an image–text study.

A list where one value is expected is a sweep: lists under ``dataset`` make several data sets; lists under ``encoder``,
``text_encoder``, ``projection``, ``similarity``, ``augmentation``, ``training`` or an objective make several variants of each
objective.
"""

import itertools
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, model_validator

from trueneg.config.trained_study import (
    EvaluationResources,
    MeasurementSettings,
    ObjectiveSettings,
    PrimaryContrast,
    TrainedStudy,
    TrainingResources,
    word_true,
)
from trueneg.specs.settings import (
    AtLeastTwo,
    Boolean,
    Count,
    CountFromZero,
    Fraction,
    Integer,
    Name,
    NonNegative,
    OpenFraction,
    PathText,
    Positive,
    Probability,
    Real,
    Settings,
    Sweepable,
    at_defaults,
    technical,
)

CLIP_STRIDE = 32  # pixels of an image to a cell of CLIP's grid
# What a metric is without learning; the gate needs it. That of a recall is measured, as it follows from how many items there are.
CHANCE = {"AUC": 0.5, "AUC positive prompt": 0.5, "CNR": 0.0, "CNR signed": 0.0}
CHEXPERT_8X200 = 1 / 8  # precision, of any list length: as many images of each of eight labels
Share = Annotated[Real, Field(ge=0, lt=1)]
NamedProbability = Literal["language model", "permuted", "constant mean", "length", "true"]
AnyProbability = Annotated[Probability | NamedProbability, BeforeValidator(word_true)]


class PairSettings(Settings):
    """Images, and the sentences of their reports.

    Attributes:
        labelled: whether the images have labels.
        truth_known: whether it is known, of some sentences at least, what images they are true of.
        boxed: whether boxes say where in an image a finding is.
    """

    labelled: ClassVar[bool] = True
    truth_known: ClassVar[bool] = False
    boxed: ClassVar[bool] = False

    text: str = Field(
        description="the likelihood study that the reports, their classes and class probabilities come from",
        json_schema_extra={"technical": True},
    )
    corpus: str | None = technical(None, "which of its corpora; none: the only one")
    images: Sweepable[Count] | None = Field(None, description="images of at most so many reports, the first; none: all")
    resolution: Sweepable[Annotated[Integer, Field(ge=32, le=1024)]] = Field(64, description="side of the images, in pixels")


class SplitPairSettings(PairSettings):
    """Images and sentences that each seed splits by patient."""

    test: OpenFraction = Field(0.2, description="share of the patients held out for testing")
    validation: OpenFraction = Field(0.1, description="share of the patients held out for choices")


class PhantomPairSettings(SplitPairSettings):
    """Synthetic radiographs of a likelihood study's synthetic reports."""

    truth_known: ClassVar[bool] = True
    boxed: ClassVar[bool] = True

    source: Literal["phantom"]
    contrast: Sweepable[Positive] = Field(1.0, description="factor of the findings' visibility")


class OpenIPairSettings(SplitPairSettings):
    """Open-I's frontal radiographs, with the reports of a likelihood study that reads Open-I."""

    truth_known: ClassVar[bool] = True

    source: Literal["open_i"]
    path: PathText = Field(description="folder of the radiographs, with its images.csv", json_schema_extra={"technical": True})


class Flickr8kPairSettings(PairSettings):
    """Flickr8k's photographs, with the captions of a likelihood study that reads them; the official splits."""

    labelled: ClassVar[bool] = False

    source: Literal["flickr8k"]


class Flickr30kPairSettings(PairSettings):
    """Flickr30k's photographs, with the captions of a likelihood study that reads them."""

    labelled: ClassVar[bool] = False

    source: Literal["flickr30k"]
    split: Literal["karpathy", "reco"] = Field(
        "karpathy",
        description="karpathy: 29,000, 1,014 and 1,000 photographs; reco: validated on what he left out, trained on the rest",
    )


class MimicCxrPairSettings(PairSettings):
    """MIMIC-CXR-JPG's frontal radiographs, with the reports of a likelihood study that reads MIMIC-CXR; the official splits."""

    source: Literal["mimic_cxr"]
    path: PathText = Field(description="folder of MIMIC-CXR-JPG, with its tables", json_schema_extra={"technical": True})
    ms_cxr: str | None = Field(
        None, description="folder of MS-CXR's boxes, whose patients are then all tested on; none: nothing is grounded"
    )
    labels: Literal["chexpert", "radiologists"] = Field(
        "chexpert", description="labels of the test split; radiologists: of release 2.1.0, where a study has them"
    )

    @property
    def boxed(self) -> bool:
        """Whether boxes of what sentences describe are known: where MS-CXR's folder is given."""
        return self.ms_cxr is not None


class ImageTablePairSettings(SplitPairSettings):
    """Own images, with the texts of a likelihood study that reads the same table."""

    source: Literal["image_table"]
    colour: Boolean = Field(False, description="true: three channels; false: grey")
    label_columns: list[str] = Field([], description="columns of labels, 1, 0 or empty for unknown, if the table has any")

    @property
    def labelled(self) -> bool:
        """Whether images have labels: where columns of the table are named."""
        return bool(self.label_columns)


AnyPairs = Annotated[
    PhantomPairSettings
    | OpenIPairSettings
    | MimicCxrPairSettings
    | Flickr8kPairSettings
    | Flickr30kPairSettings
    | ImageTablePairSettings,
    Discriminator("source"),
]


class SmallEncoderSettings(Settings):
    """Three basic blocks after a stem of stride 2, for small grey images on a CPU."""

    name: Literal["small"]
    width: Sweepable[Count] = Field(16, description="channels of the first block; the others have 2 and 4 times as many")


class ResNet18Settings(Settings):
    """torchvision's ResNet-18, its spatial map kept."""

    name: Literal["resnet18"]
    weights: str | None = Field(None, description="torchvision's name of trained weights, or a file; none: from scratch")


class ResNet50Settings(Settings):
    """torchvision's ResNet-50, its spatial map kept."""

    name: Literal["resnet50"]
    weights: str | None = Field(None, description="as for resnet18")


class ClipEncoderSettings(Settings):
    """The ResNet of a CLIP, by open_clip (the extra clip), its spatial map kept; it normalises images as it was trained to."""

    name: Literal["clip"]
    model: str = Field(
        "RN50-quickgelu", description="open_clip's name of a CLIP with a ResNet, or a JSON file of its configuration"
    )
    weights: str | None = Field(None, description="open_clip's tag of trained weights, as openai, or a file; none: from scratch")


EncoderSettings = Annotated[
    SmallEncoderSettings | ResNet18Settings | ResNet50Settings | ClipEncoderSettings, Discriminator("name")
]


class TextEncoderSettings(Settings):
    """What every text encoder can say."""

    pooling: Sweepable[Literal["cls", "mean"]] = Field("cls", description="cls: the first token's vector; mean: of all tokens")
    truncate: Boolean = Field(False, description="cut longer sentences, in place of refusing them")


class SmallTextEncoderSettings(TextEncoderSettings):
    """A BERT trained from the start, with a vocabulary from the training sentences."""

    name: Literal["small"]
    hidden: Sweepable[Count] = Field(128, description="size of a token's vector")
    layers: Sweepable[Count] = Field(2, description="transformer layers")
    heads: Sweepable[Count] = Field(4, description="of attention; they divide `hidden`")
    dropout: Sweepable[Share] = Field(0.1, description="of hidden states and attention")
    vocabulary: Sweepable[Count] = Field(2000, description="tokens, at most")
    maximum_tokens: Count = Field(128, description="longest sentence")

    @model_validator(mode="after")
    def _heads_divide(self):
        for hidden, heads in itertools.product(_values(self.hidden), _values(self.heads)):
            if hidden % heads:
                raise ValueError(f".heads is {heads}, which does not divide hidden, {hidden}")
        return self


class PretrainedTextEncoderSettings(TextEncoderSettings):
    """A trained BERT: a folder written by ``save_pretrained``, or a name on the hub."""

    name: Literal["pretrained"]
    model: PathText = Field(description="folder, or name on the hub, such as emilyalsentzer/Bio_ClinicalBERT")
    revision: str | None = Field(None, description="branch, tag or commit on the hub; a commit makes a study repeatable")
    offline: Boolean = technical(False, "look in the local cache only, never on the network")
    frozen_layers: Sweepable[CountFromZero] | None = Field(
        None, description="n: the embedding layer and the first n layers stay as they are (ReCo: 6); none: all learns"
    )
    maximum_tokens: Count | None = Field(None, description="longest sentence; none: what the model allows")


class ClipTextEncoderSettings(Settings):
    """The transformer of a CLIP with its own tokenizer, by open_clip (the extra clip)."""

    name: Literal["clip"]
    model: str = Field("RN50-quickgelu", description="as for the encoder clip")
    weights: str | None = Field(None, description="as for the encoder clip")
    truncate: Boolean = Field(False, description="cut longer sentences, in place of refusing them")
    maximum_tokens: Count | None = Field(None, description="longest sentence; none: what the model allows, 77")


AnyTextEncoder = Annotated[
    SmallTextEncoderSettings | PretrainedTextEncoderSettings | ClipTextEncoderSettings, Discriminator("name")
]


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

    @model_validator(mode="after")
    def _one_length(self):
        if (self.epochs is None) == (self.updates is None):
            raise ValueError(" needs either epochs or updates, one of the two")
        return self


class PairObjectiveSettings(ObjectiveSettings):
    """What every objective can say."""

    logit_scale: Sweepable[Positive] | None = Field(None, description="in place of similarity.logit_scale")


class DirectedSettings(PairObjectiveSettings):
    """An objective whose anchors may be texts or images."""

    directions: Sweepable[Literal["text", "image", "both"]] = Field(
        "text", description="text: texts are the anchors, images the negatives; image: the reverse; both: the mean of the two"
    )


class ContrastivePairs(DirectedSettings):
    """CL: InfoNCE, no correction."""

    MODULES = ("trueneg.losses.estimators.uncorrected",)

    name: Literal["cl"]
    switched_off_by: Sweepable[AnyProbability] | None = Field(
        None, description="control: anchors that DCL with this η would have at its bound get no gradient; nothing is subtracted"
    )

    @classmethod
    def modules(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        return cls.MODULES if values.get("switched_off_by") is None else (*cls.MODULES, *DebiasedPairs.MODULES)


class DebiasedPairs(DirectedSettings):
    """DCL: the expected share of false negatives is subtracted."""

    MODULES = ("trueneg.losses.estimators.debiased",)

    name: Literal["dcl"]
    class_probability: Sweepable[AnyProbability] = Field(
        description="η: a number; language model: from the sentence's likelihood; permuted, constant mean, length: its controls; "
        "true: the known one"
    )
    bound_gradient: Boolean = Field(False, description="let the bound carry gradient to the logit scale")
    smooth_bound: Boolean = Field(False, description="experimental: add bound and estimate in place of taking the larger")


class HardNegativePairs(DirectedSettings):
    """HCL: as DCL, with near negatives weighing more."""

    MODULES = ("trueneg.losses.estimators.hard_negative",)

    name: Literal["hcl"]
    class_probability: Sweepable[AnyProbability] = Field(description="η, as for dcl")
    beta: Sweepable[NonNegative] = Field(1.0, description="β, how much more near negatives weigh")
    bound_gradient: Boolean = Field(False, description="as for dcl")


class BayesianPairs(DirectedSettings):
    """BCL: negatives weigh as much as they are likely to be true, and hard."""

    MODULES = ("trueneg.losses.estimators.bayesian",)

    name: Literal["bcl"]
    class_probability: Sweepable[AnyProbability] = Field(description="η (τ⁺ there), as for dcl")
    alpha: Sweepable[Annotated[Real, Field(ge=0.5, le=1)]] = Field(
        0.7, description="α, how often a true negative is farther than a false one"
    )
    beta: Sweepable[NonNegative] = Field(1.0, description="β, concentration on near negatives")
    form: Sweepable[Literal["paper", "released", "consistent"]] = Field("consistent", description="see docs/losses.md")


class RelaxedPairs(PairObjectiveSettings):
    """ReCo: non-negative similarity is punished, negative one is not."""

    MODULES = ("trueneg.losses.relaxed",)

    name: Literal["reco"]
    negative_weight: Sweepable[NonNegative] = Field(0.6, description="λ, weight of the negatives")


class OrthogonalPairs(PairObjectiveSettings):
    """OC: as ReCo, with every similarity drawn to zero."""

    MODULES = ("trueneg.losses.relaxed",)

    name: Literal["oc"]
    negative_weight: Sweepable[NonNegative] = Field(0.6, description="λ, weight of the negatives")


class OraclePairs(DirectedSettings):
    """Images that a sentence is true of are no negatives: uses the truth, never a method, shows what could be gained."""

    MODULES = ("trueneg.losses.estimators.removed",)

    name: Literal["oracle"]


class KnownSimilarity(DirectedSettings):
    """An objective that is told how alike two pairs are."""

    by: Sweepable[Literal["text", "labels"]] = Field(
        "text",
        description="text: cosine of the sentences under the text encoder at first; labels: 1 where a positive label is shared",
    )


class RemovedPairs(KnownSimilarity):
    """Negatives that are too alike are left out."""

    MODULES = ("trueneg.losses.estimators.removed",)

    name: Literal["remove"]
    threshold: Sweepable[Real] = Field(0.5, description="θ, the largest similarity that stays")


class ReweightedPairs(KnownSimilarity):
    """The more alike a negative, the less it weighs."""

    MODULES = ("trueneg.losses.estimators.reweighted",)

    name: Literal["reweight"]
    exponent: Sweepable[Positive] = Field(1.0, description="of 1 − similarity")


class ResampledPairs(KnownSimilarity):
    """Negatives are drawn again, the less alike the likelier."""

    MODULES = ("trueneg.losses.estimators.resampled",)

    name: Literal["resample"]
    size: Sweepable[Count] = Field(32, description="negatives drawn for an anchor")


class SymmetricPairs(PairObjectiveSettings):
    """InfoNCE in both directions (CLIP)."""

    MODULES = ("trueneg.losses.estimators.uncorrected",)

    name: Literal["clip"]


class BiovilPairs(PairObjectiveSettings):
    """InfoNCE in both directions and masked words (BioViL)."""

    MODULES = ("trueneg.losses.estimators.uncorrected",)

    name: Literal["biovil"]
    masked_words_weight: Sweepable[Positive] = Field(0.1, description="weight of the masked words' cross-entropy")
    mask_share: OpenFraction = Field(0.15, description="share of a sentence's tokens that are masked")


class SameSentencePairs(DirectedSettings):
    """Images whose report holds the identical sentence are further positives, or no negatives."""

    MODULES = ("trueneg.losses.estimators.removed",)

    name: Literal["same_sentence"]
    mode: Sweepable[Literal["left out", "positives"]] = Field("left out", description="of the negatives; or positives besides")


class ReleasedPairs(ObjectiveSettings):
    """No training: released networks are measured as they are, with their own projections."""

    MODULES = ()

    name: Literal["released"]
    encoder: EncoderSettings | None = Field(None, description="in place of the study's `encoder`")
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


AnyPairObjective = Annotated[
    ContrastivePairs
    | DebiasedPairs
    | HardNegativePairs
    | BayesianPairs
    | RelaxedPairs
    | OrthogonalPairs
    | OraclePairs
    | RemovedPairs
    | ReweightedPairs
    | ResampledPairs
    | SymmetricPairs
    | BiovilPairs
    | SameSentencePairs
    | ReleasedPairs,
    Discriminator("name"),
]


class PromptSettings(Settings):
    """The two sentences that an image is compared with."""

    negative: str = Field(min_length=1, description="sentence of an image without the finding")
    positive: str = Field(min_length=1, description="sentence of an image with it")


class ZeroShotSettings(Settings):
    """Classification by comparing an image with two sentences."""

    prompts: dict[str, PromptSettings] | None = Field(None, description="by label; none: the first paper's Table 2")


class RetrievalSettings(Settings):
    """Images by sentences and sentences by images, reports likewise."""

    ks: list[Count] = Field([1, 5, 10, 50, 100], min_length=1, description="k of R@k")


class GroundingSettings(Settings):
    """Where in an image a sentence is, against boxes."""

    smoothing: NonNegative = Field(0.0, description="standard deviation of a Gaussian over heatmaps, in grid cells (BioViL: 1.5)")


class RegionRetrievalSettings(Settings):
    """Boxes by sentences and sentences by boxes, by RoIAlign."""

    ks: list[Count] = Field([10, 50, 100], min_length=1, description="k of R@k")


class PrecisionSettings(Settings):
    """Images of the same label by an image, and by a sentence."""

    ks: list[Count] = Field([5, 10, 50], min_length=1, description="k of Prec@k")


class Chexpert8x200Settings(Settings):
    """ConVIRT's retrieval of CheXpert's images by images and by sentences (ReCo, Table 1)."""

    path: PathText = Field(description="folder of CheXpert's images", json_schema_extra={"technical": True})
    lists: str = Field(description="clone of ConVIRT's lists", json_schema_extra={"technical": True})
    ks: list[Count] = Field([5, 10, 50], min_length=1, description="k of Prec@k")


class MultiLabelProbeSettings(Settings):
    """Logistic regressions on the frozen encoder's features; unknown labels are left out."""

    fractions: list[Fraction] = Field([0.01, 0.1, 1.0], min_length=1, description="shares of the labels to train on")
    epochs: Count = Field(100, description="passes over the labelled images")
    batch_size: Count = Field(512, description="labelled images a step")
    learning_rate: Positive = Field(1e-3, description="of Adam")
    weight_decay: NonNegative = Field(1e-6, description="of Adam")


class FineTuningSettings(Settings):
    """Encoder and a linear head trained together."""

    fractions: list[Fraction] = Field([0.01, 0.1, 1.0], min_length=1, description="shares of the labels to train on")
    epochs: Count = Field(20, description="passes over the labelled images")
    batch_size: Count = Field(64, description="labelled images a step")
    learning_rate: Positive = Field(1e-4, description="of Adam")
    weight_decay: NonNegative = Field(1e-6, description="of Adam")


class AugmentedProbeSettings(FineTuningSettings):
    """A linear head on augmented images, the encoder frozen (ReCo, section 4.3)."""

    learning_rate: Positive = Field(0.01, description="of Adam")


class ImageTextEvaluationSettings(EvaluationResources):
    """What is measured on the finished networks."""

    zero_shot: ZeroShotSettings = Field(default_factory=ZeroShotSettings)
    retrieval: RetrievalSettings = Field(default_factory=RetrievalSettings)
    grounding: GroundingSettings = Field(default_factory=GroundingSettings)
    linear_probe: MultiLabelProbeSettings = Field(default_factory=MultiLabelProbeSettings)
    region_retrieval: RegionRetrievalSettings | None = Field(None, description="measured where given")
    precision: PrecisionSettings | None = Field(None, description="measured where given")
    chexpert_8x200: Chexpert8x200Settings | None = Field(None, description="measured where given")
    fine_tuning: FineTuningSettings | None = Field(None, description="measured where given: trains the encoder several times")
    augmented_linear_probe: AugmentedProbeSettings | None = Field(None, description="measured where given")


class ImageTextMeasurement(MeasurementSettings):
    """One of the evaluation's measurements, as the rows name it."""

    task: Literal[
        "zero-shot",
        "retrieval sentence",
        "retrieval report",
        "grounding",
        "linear probe",
        "region retrieval",
        "precision",
        "chexpert 8x200",
        "fine-tuning",
        "augmented linear probe",
    ] = Field("zero-shot", description="evaluation")
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
        of_labels = self.task == "chexpert 8x200" and self.metric == "Prec"
        if self.metric not in CHANCE and not of_recall and not of_labels:
            raise ValueError(
                f".metric is {self.metric!r}, expected one whose level of chance is known: {', '.join(CHANCE)}, or R with a "
                "direction and a k"
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
    encoder: EncoderSettings
    text_encoder: AnyTextEncoder
    projection: ImageTextProjectionSettings = Field(default_factory=ImageTextProjectionSettings)
    similarity: SimilaritySettings = Field(default_factory=SimilaritySettings)
    augmentation: RadiographAugmentationSettings = Field(default_factory=RadiographAugmentationSettings)
    training: ImageTextTrainingSettings
    conditions: list[Literal["batch_size", "learning_rate", "epochs", "updates", "unit"]] = Field(
        [], description="swept settings of `training` to compare within, as within data sets; others are chosen on validation"
    )
    objectives: dict[Name, AnyPairObjective] = Field(min_length=2)
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
            if "released" in _values(sections["projection"].name):
                _refuse_unshared(f".objectives.{name}", encoder, text_encoder)
            if objective.name == "biovil" and text_encoder.name == "clip":
                raise ValueError(f".objectives.{name} masks words, which needs a BERT, but text_encoder.name is 'clip'")
            smallest = round(min(_values(sections["augmentation"].crop)) * min(_values(self.dataset.resolution)))
            if encoder.name == "clip" and smallest < CLIP_STRIDE:
                raise ValueError(
                    f".objectives.{name} has the encoder clip, which needs crops of {CLIP_STRIDE} pixels, but those of "
                    f"dataset.resolution and augmentation.crop have {smallest}; raise one of them"
                )
        return self

    def sections_of(self, objective: Settings) -> dict[str, Settings]:
        sections = super().sections_of(objective)
        return objective.sections(sections) if isinstance(objective, ReleasedPairs) else sections


def _values(given: Any) -> list[Any]:
    """The values of a sweep, or the one of none."""
    return given if isinstance(given, list) else [given]


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
