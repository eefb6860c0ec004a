"""Base classes of the objectives, and value types that several of them share."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model

from trueneg.specs.settings import Fraction, NonNegative, OpenFraction, Positive, Probability, Real, Settings, Sweepable


def _word_true(given: Any) -> Any:
    """Convert YAML's boolean true to the text ``true``: as a class probability it means each sample's own class."""
    return "true" if given is True else given


ImageProbability = Annotated[Probability | Literal["low", "high", "true"], BeforeValidator(_word_true)]
ImageProbabilities = Sweepable[ImageProbability]
SentenceProbability = Annotated[
    Probability | Literal["language model", "permuted", "constant mean", "length", "true"], BeforeValidator(_word_true)
]
SentenceProbabilities = Sweepable[SentenceProbability]


class WarmStart(Settings):
    """One value at first, then another from a given point of the run: BCL's warm-start is 0.5, then 0.7 for the last quarter."""

    schedule: Literal["warm-start"]
    before: NonNegative = Field(0.5, description="value at first")
    after: NonNegative = Field(0.7, description="value from there on")
    at: OpenFraction = Field(0.75, description="share of the run after which the value changes")


class Linear(Settings):
    """A change from one value to another in equal steps: BCL's β goes from 2 to 0, with a step every 20 of 400 epochs."""

    schedule: Literal["linear"]
    start: NonNegative = Field(description="value at the start")
    end: NonNegative = Field(description="value that the last step would reach")
    every: Fraction = Field(0.05, description="share of the run that a step lasts")


class Adjusted(Settings):
    """A value measured during training: BCL's timely-adjust sets α to the macro-AUC (its Eq. 15) every 20 of 400 epochs."""

    schedule: Literal["adjusted"]
    by: Literal["labels", "views"] = Field(
        "labels", description="labels: those of the validation split; views: none, an image's other view stands for its class"
    )
    every: Fraction = Field(0.05, description="share of the run between two measurements")


def _schedule_or_number(given: Any) -> str:
    return "scheduled" if isinstance(given, (dict, Settings)) else "number"


Location = Annotated[Real, Field(ge=0.5, le=1)]
# A number, or a mapping that defines how it changes over the run.
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
    """Base class of all objectives.

    Attributes:
        MODULES: dotted names of the modules that implement the objective; editing one makes only this objective's runs stale.
    """

    MODULES: ClassVar[tuple[str, ...]]

    @classmethod
    def modules(cls, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the modules that implement the objective with the given settings."""
        return cls.MODULES


class TwoViews(Objective):
    """Settings shared by objectives of two views of an image.

    Attributes:
        ALLOWED: type and description of settings in an image study, by name.
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
    """Settings shared by objectives of image–sentence pairs."""

    logit_scale: Sweepable[Positive] | None = Field(None, description="in place of similarity.logit_scale")


class Directed(Pairs):
    """An objective of pairs with sentences or images as anchors.

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
    """Add the shared settings of a kind of study to an objective, unless the objective already inherits them."""
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
