"""The objectives: what a configuration may say of each, and which modules implement it.

An objective that both kinds of study have is declared once; :func:`objectives_of` adds what a kind of study can say of all of its
objectives (:class:`TwoViews`, :class:`Directed`), and the values that it allows.
"""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Union

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model, model_validator

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
    Sweepable,
)


def _word_true(given: Any) -> Any:
    """YAML reads the word true as a boolean; where a class probability stands it means each sample's own class."""
    return "true" if given is True else given


ImageProbability = Annotated[Probability | Literal["low", "high", "true"], BeforeValidator(_word_true)]
SentenceProbability = Annotated[
    Probability | Literal["language model", "permuted", "constant mean", "length", "true"], BeforeValidator(_word_true)
]


class WarmStart(Settings):
    """One value, then another from some point of the run on: BCL's warm-start is 0.5, and 0.7 for the last quarter."""

    schedule: Literal["warm-start"]
    before: NonNegative = Field(0.5, description="value at first")
    after: NonNegative = Field(0.7, description="value from there on")
    at: OpenFraction = Field(0.75, description="share of the run after which the value changes")


class Linear(Settings):
    """From one value to another in equal steps: BCL's β goes from 2 to 0, a step every 20 of 400 epochs."""

    schedule: Literal["linear"]
    start: NonNegative = Field(description="value at the start")
    end: NonNegative = Field(description="value that the last step would reach")
    every: Fraction = Field(0.05, description="share of the run that a step lasts")


class Adjusted(Settings):
    """Measured as the encoder improves: BCL's timely-adjust sets α to the macro-AUC (its Eq. 15) every 20 of 400 epochs."""

    schedule: Literal["adjusted"]
    by: Literal["labels", "views"] = Field(
        "labels", description="labels: those of the validation split; views: none, an image's other view stands for its class"
    )
    every: Fraction = Field(0.05, description="share of the run between two measurements")


def _schedule_or_number(given: Any) -> str:
    return "schedule" if isinstance(given, (dict, Settings)) else "number"


Location = Annotated[Real, Field(ge=0.5, le=1)]
# A number, or a mapping that says how it changes over the run.
ScheduledConcentration = Annotated[
    Annotated[NonNegative, Tag("number")] | Annotated[Annotated[WarmStart | Linear, Discriminator("schedule")], Tag("schedule")],
    Discriminator(_schedule_or_number),
]
ScheduledLocation = Annotated[
    Annotated[Location, Tag("number")]
    | Annotated[Annotated[WarmStart | Linear | Adjusted, Discriminator("schedule")], Tag("schedule")],
    Discriminator(_schedule_or_number),
]


class Objective(Settings):
    """What every objective has.

    Attributes:
        MODULES: dotted names of the modules that implement the objective, which the code fingerprint of its runs covers besides
            the training.
        ALLOWED: of a kind of study: type and description of the settings of which the kinds allow different values.
    """

    MODULES: ClassVar[tuple[str, ...]]
    ALLOWED: ClassVar[Mapping[str, Any]] = {}

    @classmethod
    def modules(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The modules that implement the objective with such settings."""
        return cls.MODULES


class TwoViews(Objective):
    """What every objective of two views of an image can say."""

    ALLOWED: ClassVar = {
        "class_probability": (
            Sweepable[ImageProbability],
            "η: a number; low and high: that of the rare and of the common classes; true: of each image's own class",
        ),
        "alpha": (
            Sweepable[ScheduledLocation],
            "α, how often a true negative is farther than a false one; may be scheduled or measured",
        ),
        "beta": (Sweepable[ScheduledConcentration], "β ≥ 0, how much more near negatives weigh; may be scheduled"),
    }

    temperature: Sweepable[Positive] | None = Field(None, description="in place of training.temperature")


class Pairs(Objective):
    """What every objective of pairs of an image and a sentence can say."""

    logit_scale: Sweepable[Positive] | None = Field(None, description="in place of similarity.logit_scale")


class Directed(Pairs):
    """An objective of pairs whose anchors may be sentences or images."""

    ALLOWED: ClassVar = {
        "class_probability": (
            Sweepable[SentenceProbability],
            "η: a number; language model: from the sentence's likelihood; permuted, constant mean, length: its controls; "
            "true: the known one",
        ),
    }

    directions: Sweepable[Literal["text", "image", "both"]] = Field(
        "text", description="text: texts are the anchors, images the negatives; image: the reverse; both: the mean of the two"
    )


class Uncorrected(Objective):
    """CL: InfoNCE / SimCLR, no correction."""

    MODULES = ("trueneg.losses.estimators.uncorrected",)

    name: Literal["cl"]


class Debiased(Objective):
    """DCL: the expected share of false negatives is subtracted."""

    MODULES = ("trueneg.losses.estimators.debiased",)

    name: Literal["dcl"]
    class_probability: Sweepable[Probability]


class HardNegative(Objective):
    """HCL: as DCL, with near negatives weighing more; at class_probability 0 hardness without debiasing."""

    MODULES = ("trueneg.losses.estimators.hard_negative",)

    name: Literal["hcl"]
    class_probability: Sweepable[Probability]
    beta: Sweepable[NonNegative] = Field(1.0, description="β ≥ 0, how much more near negatives weigh")


class Bayesian(Objective):
    """BCL: negatives weigh as much as they are likely to be true, and hard."""

    MODULES = ("trueneg.losses.estimators.bayesian",)

    name: Literal["bcl"]
    class_probability: Sweepable[Probability]
    alpha: Sweepable[Location] = Field(0.7, description="α, how often a true negative is farther than a false one")
    beta: Sweepable[NonNegative] = Field(1.0, description="β ≥ 0, how much more near negatives weigh")
    form: Sweepable[Literal["paper", "released", "consistent"]] = Field("paper", description="which weights: see docs/losses.md")

    @model_validator(mode="after")
    def _released_form_mixes(self):
        released = "released" in (self.form if isinstance(self.form, list) else [self.form])
        betas = self.beta if isinstance(self.beta, list) else [self.beta]
        if released and not all(0.5 <= value <= 1 for beta in betas for value in _reached(beta)):
            raise ValueError(".beta leaves the range from 0.5 to 1; with form: released it mixes two densities")
        return self


def _reached(value: float | WarmStart | Linear) -> tuple[float, ...]:
    """The ends of what a value or its schedule reaches."""
    if isinstance(value, WarmStart):
        return value.before, value.after
    return (value.start, value.end) if isinstance(value, Linear) else (value,)


class Oracle(Objective):
    """The mass over the known true negatives: uses labels or the truth, never a method, shows what could be gained."""

    MODULES = ("trueneg.losses.estimators.oracle",)

    name: Literal["oracle"]


class UncorrectedPairs(Uncorrected):
    """CL on pairs, with a control that switches anchors off."""

    switched_off_by: Sweepable[SentenceProbability] | None = Field(
        None, description="control: anchors that DCL with this η would have at its bound get no gradient; nothing is subtracted"
    )

    @classmethod
    def modules(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        """As for every objective, and DCL's where the control needs it."""
        return cls.MODULES if values.get("switched_off_by") is None else (*cls.MODULES, *Debiased.MODULES)


class DebiasedPairs(Debiased):
    """DCL on pairs, whose bound may carry gradient to the logit scale."""

    bound_gradient: Boolean = Field(False, description="let the bound carry gradient to the logit scale")
    smooth_bound: Boolean = Field(False, description="experimental: add bound and estimate in place of taking the larger")


class HardNegativePairs(HardNegative):
    """HCL on pairs, whose bound may carry gradient to the logit scale."""

    bound_gradient: Boolean = Field(False, description="let the bound carry gradient to the logit scale")


class BayesianPairs(Bayesian):
    """BCL on pairs, whose default is the consistent form."""

    form: Sweepable[Literal["paper", "released", "consistent"]] = Field(
        "consistent", description="which weights: see docs/losses.md"
    )


class Relaxed(Pairs):
    """ReCo: non-negative similarity is punished, negative one is not."""

    MODULES = ("trueneg.losses.relaxed",)

    name: Literal["reco"]
    negative_weight: Sweepable[NonNegative] = Field(0.6, description="λ, weight of the negatives")


class Orthogonal(Relaxed):
    """OC: as ReCo, with every similarity drawn to zero."""

    name: Literal["oc"]


class KnownSimilarity(Directed):
    """An objective that uses a known similarity of pairs."""

    by: Sweepable[Literal["text", "labels"]] = Field(
        "text",
        description="text: cosine of the sentences under the text encoder at first; labels: 1 where a positive label is shared",
    )


class Removed(KnownSimilarity):
    """Negatives that are too alike are left out."""

    MODULES = ("trueneg.losses.estimators.removed",)

    name: Literal["remove"]
    threshold: Sweepable[Real] = Field(0.5, description="θ, the largest similarity that stays")


class Reweighted(KnownSimilarity):
    """The more alike a negative, the less it weighs."""

    MODULES = ("trueneg.losses.estimators.reweighted",)

    name: Literal["reweight"]
    exponent: Sweepable[Positive] = Field(1.0, description="of 1 − similarity")


class Resampled(KnownSimilarity):
    """Negatives are drawn again, the less alike the likelier."""

    MODULES = ("trueneg.losses.estimators.resampled",)

    name: Literal["resample"]
    size: Sweepable[Count] = Field(32, description="negatives drawn for an anchor")


class Clip(Pairs):
    """InfoNCE in both directions (CLIP)."""

    MODULES = Uncorrected.MODULES

    name: Literal["clip"]


class Biovil(Clip):
    """InfoNCE in both directions and masked words (BioViL)."""

    name: Literal["biovil"]
    masked_words_weight: Sweepable[Positive] = Field(0.1, description="weight of the masked words' cross-entropy")
    mask_share: OpenFraction = Field(0.15, description="share of a sentence's tokens that are masked")


class SameSentence(Directed):
    """Images whose report holds the identical sentence are further positives, or no negatives."""

    MODULES = Oracle.MODULES

    name: Literal["same_sentence"]
    mode: Sweepable[Literal["left out", "positives"]] = Field("left out", description="of the negatives; or positives besides")


class Released(Objective):
    """No training: released networks are measured as they are, with their own projections."""

    MODULES = ()

    name: Literal["released"]


def objectives_of(kind: type[Objective], *objectives: type[Objective]) -> tuple[type[Objective], ...]:
    """The objectives with what a kind of study can say of all of them, and with the values that it allows."""
    return tuple(
        create_model(
            f"{kind.__name__}{objective.__name__}",
            __base__=(objective, kind),
            __doc__=inspect.getdoc(objective),
            __module__=__name__,
            **{
                key: (allowed, Field(objective.model_fields[key].get_default(), description=description))
                for key, (allowed, description) in kind.ALLOWED.items()
                if key in objective.model_fields
            },
        )
        for objective in objectives
    )


def union_of(*objectives: type[Objective]) -> Any:
    """Any of some objectives, told apart by name."""
    return Annotated[Union[objectives], Discriminator("name")]  # noqa: UP007 (of types that are not written out)


OF_TWO_VIEWS = objectives_of(TwoViews, Uncorrected, Debiased, HardNegative, Bayesian, Oracle)
OF_PAIRS = (
    *objectives_of(Directed, UncorrectedPairs, DebiasedPairs, HardNegativePairs, BayesianPairs, Oracle),
    *(Removed, Reweighted, Resampled, SameSentence, Relaxed, Orthogonal, Clip, Biovil),
)
