"""Base classes of the objectives, and value types that several of them share.

An objective of an image study inherits from :class:`TwoViewObjective`, one of an image–text study
from :class:`PairObjective`, or, if its loss has no estimator, from :class:`PairLoss`. Settings that
a method has in both kinds of study are in a class from which both of its objectives inherit first.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from trueneg.specs.guides import GUIDES, PairGuide, TwoViewGuide
from trueneg.specs.guides.base import LANGUAGE_MODEL, GuideSettings
from trueneg.specs.guides.labels import SharedLabelGuideSettings
from trueneg.specs.guides.sentences import SentenceGuideSettings
from trueneg.specs.hard_negatives import HardNegativeSettings
from trueneg.specs.sections import Section
from trueneg.specs.settings import (
    Boolean,
    Count,
    Fraction,
    NonNegative,
    OpenFraction,
    Positive,
    Probability,
    Real,
    Settings,
    Share,
    Sweepable,
    values_of,
)
from trueneg.specs.temperature import TEMPERATURE_KEYS

# Convert YAML's boolean true to text; as a class probability, "true" means that of each sample's
# own class.
WordTrue = BeforeValidator(lambda value: "true" if value is True else value)
ImageProbability = Annotated[Probability | Literal["low", "high", "true"], WordTrue]


class PartlyTrue(Settings):
    """The true class probability for a random share of the sentences; those of the others are
    shuffled.
    """

    true_share: Share
    """share of the sentences that keep their true η; the η of the others are shuffled"""


SentenceProbability = Annotated[
    Annotated[
        Probability | Literal["language model", "permuted", "constant mean", "length", "true"],
        WordTrue,
        Tag("value"),
    ]
    | Annotated[PartlyTrue, Tag("partly true")],
    Discriminator(lambda value: "partly true" if isinstance(value, (dict, Settings)) else "value"),
]


def uses_truth(class_probability: Any) -> bool:
    """Return whether a sentence's class probability is the true one, at least for some
    sentences.
    """
    return class_probability == "true" or isinstance(class_probability, PartlyTrue)


def _need_of(value: Any) -> str:
    """Return what the data must provide for a value of a setting; empty: nothing."""
    if isinstance(value, str) and value in FROM_LIKELIHOODS:
        return LANGUAGE_MODEL
    return "known class probabilities" if uses_truth(value) else getattr(value, "NEEDS", "")


IMAGE_ETA = (
    "η: a number, or the frequency of a rare class (low), a common class (high) or each image's own"
    " class (true)"
)
ETA_CONTROLS = ("permuted", "constant mean", "length")
FROM_LIKELIHOODS = ("language model", *ETA_CONTROLS)  # class probabilities made by a language model
SENTENCE_ETA = (
    "η: a number, from likelihoods (language model), a control (permuted, constant mean, length) or"
    " the truth (true, true_share)"
)
SAME_TEXT = (
    "pairs whose text is the anchor's, apart from case, spaces and final punctuation: negatives"
    " (keep), left out (exclude), left out with the anchor's positives in other given pairs (known)"
    " or positives, over which the loss is averaged; null: keep in image–text studies, known for"
    " given pairs of texts, exclude for other texts"
)
BETA = "β ≥ 0: hardness weighting of the negatives"


class Objective(Settings):
    """Base class of all objectives.

    Attributes:
        NEEDS_GUIDE: whether the estimator needs a guide's similarities.
        GUIDE: a guide of the objective's own, which takes the objective's settings; None: the one
            that ``guide`` describes.
        LOSS: name of the loss in :func:`trueneg.losses.build`; None: the objective's name.
        OF_TRAINING: settings that the training uses, and not the loss.
        TRAINED: whether there is anything to train.
        SCALED: whether a temperature or logit scale multiplies the similarities, so that tuning
            must include it.
        NEEDS_POOLED: whether images need a single embedding each, so the similarity cannot be
            aggregated over regions.
        MASKS_WORDS: whether it masks words, which needs a BERT of this project.
        MATCHES_REPORTS: whether a sentence matches the images whose reports contain it, and not
            those of which it is true.
        DRAWS: how often a run should draw each sample at least, so that what the method learns
            about a sample can take effect.
        SUBTRACTS: whether it subtracts the false negatives that ``class_probability`` expects, so
            that its estimate needs a lower bound unless that is 0.
    """

    NEEDS_GUIDE: ClassVar[bool] = False
    GUIDE: ClassVar[type[GuideSettings] | None] = None
    LOSS: ClassVar[str | None] = None
    OF_TRAINING: ClassVar[frozenset[str]] = frozenset(
        {"guide", "by", "a", "k", "own_report", "same_text", "hard_negatives", *TEMPERATURE_KEYS}
    )
    TRAINED: ClassVar[bool] = True
    SCALED: ClassVar[bool] = True
    NEEDS_POOLED: ClassVar[bool] = False
    MASKS_WORDS: ClassVar[bool] = False
    MATCHES_REPORTS: ClassVar[bool] = False
    DRAWS: ClassVar[int] = 0
    SUBTRACTS: ClassVar[bool] = False

    @classmethod
    def guide_of(cls, settings: Section) -> tuple[type[GuideSettings], Section] | None:
        """Return the guide of an objective with these settings, and the guide's own settings; None
        if it has no guide.
        """
        if cls.GUIDE is not None:
            return cls.GUIDE, settings
        guide = settings.get("guide")
        return None if guide is None else (GUIDES[guide["name"]], guide)

    def needs(self) -> list[tuple[str, str]]:
        """Return what the data must provide (keys of ``TrainedStudy.provided``), each after the
        setting that needs it.

        Such a setting is ``.by``; it is empty for what the objective needs with any settings.
        """
        return [
            (f".{key}", need)
            for key, setting in self
            for need in map(_need_of, values_of(setting))
            if need
        ]

    @property
    def uses_labels(self) -> bool:
        """Whether training sees labels or the truth; all other objectives must not depend on
        them.
        """
        return any(need != LANGUAGE_MODEL for _, need in self.needs())

    @property
    def is_control(self) -> bool:
        """Whether random or uniform values replace what a method estimates (η, a guide, soft
        targets, weights), or only its effect on some anchors is imitated.
        """
        values = [value for _, setting in self for value in values_of(setting)]
        parts = (
            value in ETA_CONTROLS if isinstance(value, str) else getattr(value, "is_control", False)
            for value in values
        )
        return (
            getattr(self, "shuffled", False)
            or getattr(self, "switched_off_by", None) is not None
            or any(parts)
        )

    @classmethod
    def loss_settings(cls, settings: Section) -> dict[str, Any]:
        """Return the name of the loss and those of the objective's settings that the loss uses."""
        used = {key: value for key, value in settings.items() if key not in cls.OF_TRAINING}
        return used if cls.LOSS is None else used | {"name": cls.LOSS}

    @classmethod
    def warnings(cls, settings: Section, negatives: int) -> list[str]:
        """Return what is unlikely to work in a run, each without a full stop; empty: nothing.

        Args:
            settings: the run's resolved settings, by section.
            negatives: N, the number of an anchor's negatives.
        """
        return []


class HalfUniformSettings(Settings):
    """Half of an anchor's target for its positive, half uniform over all samples: the control for
    every soft target.
    """

    is_control: ClassVar[bool] = True

    name: Literal["half_uniform"]


class AttractedSettings(Settings):
    """Uniform over the positive and the false negatives found by the guide: False Negative
    Cancellation (Huynh et al., 2022).
    """

    name: Literal["fnc"]
    threshold: Real = 0.7
    """similarity above which a sample counts as a false negative"""
    top_k: Count | None = 10
    """maximum number of false negatives per anchor; null: no limit"""


class SoftmaxSettings(Settings):
    """A softmax of the guide's similarities: with ema, momentum distillation (ALBEF); with words or
    a text encoder, X-CLR.
    """

    name: Literal["softmax"]
    temperature: Sweepable[Positive] = 0.1
    """temperature of the softmax"""
    share: Sweepable[Fraction] = 1.0
    """weight of the softmax; the rest belongs to the positive (ALBEF: 0.4)"""


class ComponentsSettings(Settings):
    """Half positive, half uniform over a component of the other view's nearest-neighbour graph: WCL
    with one head.
    """

    name: Literal["wcl_one_head"]


TARGETS = "null: all attraction goes to the positive; half_uniform, fnc, softmax"
GUIDE = (
    "what rates the similarity of samples: self, ema (the networks' average), labels, encoder (a"
    " tower, or vectors from a file)"
)


class EstimatorObjective(Objective):
    """An objective with an estimator; it can be combined with soft targets and a guide, which its
    subclasses declare.
    """

    decoupled: Boolean = False
    """leave the positive out of the denominator (Yeh et al., 2022)"""

    @property
    def has_rated_targets(self):
        """Whether there are soft targets that need a guide."""
        return self.targets is not None and not isinstance(self.targets, HalfUniformSettings)

    @model_validator(mode="after")
    def _settings_combine(self):
        self.check_combination()
        return self

    def check_combination(self):
        """Check that a guide is set if, and only if, something uses it; methods with other
        conditions override this.

        Raises:
            ValueError: if settings do not combine.
        """
        if self.GUIDE is not None:
            is_set = {"targets": self.has_rated_targets, "guide": self.guide is not None}
            if unused := [key for key, value in is_set.items() if value]:
                setting = (
                    f".targets.name is {self.targets.name}, which needs a guide"
                    if "targets" in unused
                    else ".guide is set"
                )
                raise ValueError(
                    f"{setting}, but {self.name} has a guide of its own; remove"
                    f" {' and '.join(unused)}"
                )
            return
        uses_guide = self.has_rated_targets or self.NEEDS_GUIDE
        if uses_guide and self.guide is None:
            needing = f"targets.name {self.targets.name}" if self.has_rated_targets else self.name
            raise ValueError(f".guide is missing; {needing} needs one")
        if self.guide is not None and not uses_guide:
            raise ValueError(".guide is not used by this objective; remove it, or set targets")


class MaskSettings(EstimatorObjective):
    """Settings of objectives that leave out single negatives, in every kind of study."""

    shuffled: Boolean = False
    """control: remove as many negatives, but at random"""
    nearest: Boolean = False
    """control: remove as many negatives, but the most similar true ones"""

    def needs(self) -> list[tuple[str, str]]:
        return [*super().needs(), *[(".nearest", "known matches")] * self.nearest]

    @property
    def is_control(self) -> bool:
        return self.nearest or super().is_control

    def check_combination(self):
        super().check_combination()
        if self.shuffled and self.nearest:
            raise ValueError(".shuffled and .nearest are both true; set at most one of them")


class TwoViewObjective(EstimatorObjective):
    """Settings shared by objectives that compare two views of an image."""

    temperature: Sweepable[Positive] | None = None
    """overrides training.temperature"""
    targets: (
        Annotated[
            HalfUniformSettings | AttractedSettings | SoftmaxSettings | ComponentsSettings,
            Discriminator("name"),
        ]
        | None
    ) = Field(None, description=f"{TARGETS}, wcl_one_head")
    guide: TwoViewGuide | None = Field(None, description=GUIDE)


class PairLoss(Objective):
    """Settings shared by all objectives on image–sentence pairs, including losses without an
    estimator.

    Attributes:
        SEVERAL_POSITIVES: whether the loss can be the mean over the pairs that share an anchor's
            text.
    """

    SEVERAL_POSITIVES: ClassVar[bool] = True

    logit_scale: Sweepable[Positive] | None = None
    """overrides similarity.logit_scale"""
    learned_logit_scale: Boolean | None = None
    """overrides similarity.learned_logit_scale"""
    own_report: Sweepable[Literal["negatives", "left out"]] = "negatives"
    """other pairs of the anchor's own report (unit: image): negatives like the rest, or left out"""
    same_text: Sweepable[Literal["keep", "exclude", "known", "positives"]] | None = Field(
        None, description=SAME_TEXT
    )
    hard_negatives: HardNegativeSettings | None = None
    """text studies: hard negatives to mine; none: those of the data, if any"""

    def needs(self) -> list[tuple[str, str]]:
        mined = self.hard_negatives
        uses_labels = mined is not None and mined.uses_labels
        return super().needs() + [(".hard_negatives", "known matches")] * uses_labels

    @classmethod
    def averages_positives(cls, settings: Section) -> bool:
        """Return whether the loss is a mean over all samples that match the anchor, and not the
        loss of its own positive.
        """
        return settings.get("same_text") == "positives"

    @model_validator(mode="after")
    def _mean_over_positives(self):
        if "positives" in values_of(self.same_text):
            if not self.SEVERAL_POSITIVES:
                raise ValueError(
                    f".same_text is positives, which {self.name} does not support; expected keep or"
                    " exclude"
                )
            others = {
                key: getattr(self, key, None) for key in ("targets", "decoupled", "switched_off_by")
            }
            if changed := [
                key for key, value in others.items() if value is not None and value is not False
            ]:
                raise ValueError(
                    ".same_text is positives, which is a loss of its own; remove"
                    f" {' and '.join(changed)}"
                )
        return self


class PairObjective(PairLoss, EstimatorObjective):
    """Settings shared by objectives with an estimator on image–sentence pairs, with sentences or
    images as anchors.
    """

    directions: Sweepable[Literal["text", "image", "both"]] = "text"
    """text: texts are the anchors and images the negatives; image: the reverse; both: the mean of
    the two
    """
    targets: (
        Annotated[HalfUniformSettings | AttractedSettings | SoftmaxSettings, Discriminator("name")]
        | None
    ) = Field(None, description=TARGETS)
    guide: PairGuide | None = Field(None, description=f"{GUIDE}, words")


class PairCorrection(PairObjective):
    """Settings shared by objectives on pairs that correct some or all columns."""

    scope: Sweepable[Literal["all", "in_batch", "hard"]] = "all"
    """columns that the correction looks at: all; in_batch: all but the anchor's own hard negatives;
    hard: only these. The others are negatives as they are
    """


class PairMask(PairCorrection):
    """Settings shared by objectives on pairs that remove negatives by a mask."""

    hardness: Sweepable[NonNegative] = 0.0
    """α: weights e^(α·cosine) of the columns in `scope` that the mask leaves, without gradient, as
    sentence-transformers' hardness_strength (5 or 9)
    """


class ProbabilityObjective(PairCorrection):
    """An objective on pairs that uses the class probability of each sentence; a grid of a and k is
    selected like any sweep.
    """

    class_probability: Sweepable[SentenceProbability] = Field(description=SENTENCE_ETA)
    a: Sweepable[OpenFraction] | None = None
    """a in η = a·p^k and its controls, instead of the likelihood study's a and maximum; set it with
    k
    """
    k: Sweepable[NonNegative] | None = None
    """exponent in η = a·p^k; set it together with a"""

    def check_combination(self):
        super().check_combination()
        if (self.a is None) != (self.k is None):
            raise ValueError(f" has a {self.a} and k {self.k}; set both or neither")
        for name in values_of(self.class_probability) if self.a is not None else ():
            if name not in FROM_LIKELIHOODS:
                shown = name if isinstance(name, PartlyTrue) else repr(name)
                raise ValueError(
                    f".class_probability is {shown}, which does not depend on a and k; expected"
                    f" {', '.join(map(repr, FROM_LIKELIHOODS))}, or no a and k"
                )


# guides of values of ``by``
BY: dict[str, type[GuideSettings]] = {
    "text": SentenceGuideSettings,
    "labels": SharedLabelGuideSettings,
}


class SimilarityObjective(PairCorrection):
    """An objective on pairs that uses the similarity between the texts or labels of samples."""

    by: Sweepable[Literal["text", "labels", "guide"]] = "text"
    """text: cosine between centred sentence embeddings of the language model that provides η;
    labels: 1 if the images share a positive label, else 0; guide: the guide's rating
    """

    @classmethod
    def guide_of(cls, settings: Section) -> tuple[type[GuideSettings], Section] | None:
        guide = BY.get(settings.get("by", ""))
        return super().guide_of(settings) if guide is None else (guide, settings)

    def needs(self) -> list[tuple[str, str]]:
        return super().needs() + [
            (".by", BY[value].NEEDS) for value in values_of(self.by) if value in BY
        ]

    def check_combination(self):
        if ("guide" in values_of(self.by)) != (self.guide is not None):
            raise ValueError(f".by is {self.by!r}; set .guide if, and only if, .by is 'guide'")
        if self.guide is None:  # otherwise `by` uses it
            super().check_combination()
