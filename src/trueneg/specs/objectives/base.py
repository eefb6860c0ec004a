"""What objectives have in common: their base classes, and values that several of them take."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model

from trueneg.specs.settings import Fraction, NonNegative, OpenFraction, Positive, Probability, Real, Settings, Sweepable


def _word_true(given: Any) -> Any:
    """YAML reads the word true as a boolean; where a class probability stands it means each sample's own class."""
    return "true" if given is True else given


ImageProbability = Annotated[Probability | Literal["low", "high", "true"], BeforeValidator(_word_true)]
ImageProbabilities = Sweepable[ImageProbability]
SentenceProbability = Annotated[
    Probability | Literal["language model", "permuted", "constant mean", "length", "true"], BeforeValidator(_word_true)
]
SentenceProbabilities = Sweepable[SentenceProbability]


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
    return "scheduled" if isinstance(given, (dict, Settings)) else "number"


Location = Annotated[Real, Field(ge=0.5, le=1)]
# A number, or a mapping that says how it changes over the run.
ScheduledConcentration = Annotated[
    Annotated[NonNegative, Tag("number")] | Annotated[Annotated[WarmStart | Linear, Discriminator("schedule")], Tag("scheduled")],
    Discriminator(_schedule_or_number),
]
ScheduledLocation = Annotated[
    Annotated[Location, Tag("number")]
    | Annotated[Annotated[WarmStart | Linear | Adjusted, Discriminator("schedule")], Tag("scheduled")],
    Discriminator(_schedule_or_number),
]
SweptConcentration = Sweepable[ScheduledConcentration]
SweptLocation = Sweepable[ScheduledLocation]


class Objective(Settings):
    """What every objective has.

    Attributes:
        MODULES: dotted names of the modules that implement the objective; editing them makes its runs stale, and no others.
    """

    MODULES: ClassVar[tuple[str, ...]]

    @classmethod
    def modules(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        """The modules that implement the objective with such settings."""
        return cls.MODULES


class TwoViews(Objective):
    """What every objective of two views of an image can say.

    Attributes:
        ALLOWED: type and description that a setting of this name gets in an image study.
    """

    ALLOWED: ClassVar[Mapping[str, Any]] = {
        "class_probability": (
            ImageProbabilities,
            "η: a number; low and high: that of the rare and of the common classes; true: of each image's own class",
        ),
        "alpha": (
            SweptLocation,
            "α, how often a true negative is farther than a false one; may be scheduled or measured",
        ),
        "beta": (SweptConcentration, "β ≥ 0, how much more near negatives weigh; may be scheduled"),
    }

    temperature: Sweepable[Positive] | None = Field(None, description="in place of training.temperature")


class Pairs(Objective):
    """What every objective of pairs of an image and a sentence can say."""

    logit_scale: Sweepable[Positive] | None = Field(None, description="in place of similarity.logit_scale")


class Directed(Pairs):
    """An objective of pairs whose anchors may be sentences or images.

    Attributes:
        ALLOWED: as for :class:`TwoViews`, in an image–text study.
    """

    ALLOWED: ClassVar[Mapping[str, Any]] = {
        "class_probability": (
            SentenceProbabilities,
            "η: a number; language model: from the sentence's likelihood; permuted, constant mean, length: its controls; "
            "true: the known one",
        ),
    }

    directions: Sweepable[Literal["text", "image", "both"]] = Field(
        "text", description="text: texts are the anchors, images the negatives; image: the reverse; both: the mean of the two"
    )


class KnownSimilarity(Directed):
    """An objective that uses a known similarity of pairs."""

    by: Sweepable[Literal["text", "labels"]] = Field(
        "text",
        description="text: cosine of the sentences under the text encoder at first; labels: 1 where a positive label is shared",
    )


def completed(objective: type[Objective], kind: type[TwoViews] | type[Directed]) -> type[Objective]:
    """An objective with what a kind of study can say of all its objectives, unless the objective's base class says that."""
    if issubclass(objective, (TwoViews, Pairs)):
        return objective
    fields = objective.model_fields
    replaced: dict[str, Any] = {
        key: (allowed, Field(fields[key].get_default(), description=description))
        for key, (allowed, description) in kind.ALLOWED.items()
        if key in fields
    }
    return create_model(
        f"{kind.__name__}{objective.__name__}",
        __base__=(objective, kind),
        __doc__=inspect.getdoc(objective),
        __module__=objective.__module__,
        **replaced,
    )
