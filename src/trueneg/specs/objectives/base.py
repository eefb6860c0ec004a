"""Base classes of the objectives, and value types that several of them share."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BeforeValidator, Discriminator, Field, Tag, create_model, model_validator

from trueneg.specs.guides import GUIDES, PairGuide, TwoViewGuide
from trueneg.specs.guides.base import GuideSettings
from trueneg.specs.guides.ema import AverageGuide
from trueneg.specs.guides.labels import SharedLabelGuide
from trueneg.specs.guides.own import OwnGuide
from trueneg.specs.guides.sentences import SentenceGuide
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
    values_of,
)

# Convert YAML's boolean true to text; as a class probability, "true" means that of each sample's own class.
WordTrue = BeforeValidator(lambda value: "true" if value is True else value)
ImageProbability = Annotated[Probability | Literal["low", "high", "true"], WordTrue]
SentenceProbability = Annotated[Probability | Literal["language model", "permuted", "constant mean", "length", "true"], WordTrue]
IMAGE_ETA = "η: a number, or the frequency of a rare class (low), a common class (high) or each image's own class (true)"
SENTENCE_ETA = "η: a number, from likelihoods (language model), a control (permuted, constant mean, length) or the truth (true)"
ALPHA = "α: probability that a true negative is farther away than a false one"
BETA = "β ≥ 0: hardness weighting of the negatives"
Location = Annotated[Real, Field(ge=0.5, le=1)]


class WarmStart(Settings):
    """One value at first, then another for the rest of the run: in BCL's warm-start, 0.5, then 0.7 for the last quarter."""

    schedule: Literal["warm-start"]
    before: NonNegative = Field(0.5, description="initial value")
    after: NonNegative = Field(0.7, description="final value")
    at: OpenFraction = Field(0.75, description="fraction of the run after which the value changes")


class Linear(Settings):
    """A change from one value to another in equal steps: BCL's β goes from 2 to 0 over 400 epochs, one step every 20 epochs."""

    schedule: Literal["linear"]
    start: NonNegative = Field(description="value at the start")
    end: NonNegative = Field(description="value reached when the last interval ends")
    every: Fraction = Field(0.05, description="length of a step, as a fraction of the run")


class Adjusted(Settings):
    """A value measured during training: BCL's timely-adjust sets α to the macro-AUC (Eq. 15) every 20 epochs (of 400)."""

    schedule: Literal["adjusted"]
    by: Literal["labels", "views"] = Field(
        "labels",
        description="labels: groups are the classes of validation images; views: the two views of an image are a group",
    )
    every: Fraction = Field(0.05, description="interval between two measurements, as a fraction of the run")


def _scheduled(number: Any, schedules: Any) -> Any:
    """Return the type of a sweepable number that may also be a mapping: a schedule that changes the number over the run."""
    value = Annotated[
        Annotated[number, Tag("number")] | Annotated[schedules, Discriminator("schedule"), Tag("scheduled")],
        Discriminator(lambda value: "scheduled" if isinstance(value, (dict, Settings)) else "number"),
    ]
    return cast(Any, Sweepable)[value]


class Objective(Settings):
    """Base class of all objectives.

    Attributes:
        IMPLEMENTED_IN: paths in the package of the files that implement the objective; by default, the estimator's module with
            the same name as the module of these settings. Runs record their checksums, so that an edit without a higher
            VERSION is noticed.
        NEEDS_GUIDE: whether the estimator needs a guide's similarities.
        GUIDE: a guide of the objective's own, which takes the objective's settings; None: the one that ``guide`` describes.
        LOSS: name of the loss in :func:`trueneg.losses.build`; None: the objective's name.
        OF_TRAINING: settings that the training uses, and not the loss.
        TRAINED: whether there is anything to train.
        NEEDS_POOLED: whether images need a single embedding each, so the similarity cannot be aggregated over regions.
        MATCHES_REPORTS: whether a sentence matches the images whose reports contain it, and not those of which it is true.
    """

    IMPLEMENTED_IN: ClassVar[tuple[str, ...] | None] = None
    NEEDS_GUIDE: ClassVar[bool] = False
    GUIDE: ClassVar[type[GuideSettings] | None] = None
    LOSS: ClassVar[str | None] = None
    OF_TRAINING: ClassVar[frozenset[str]] = frozenset({"guide", "by", "logit_scale", "learned_logit_scale"})
    TRAINED: ClassVar[bool] = True
    NEEDS_POOLED: ClassVar[bool] = False
    MATCHES_REPORTS: ClassVar[bool] = False

    @classmethod
    def guide_of(cls, settings: Mapping[str, Any]) -> tuple[type[GuideSettings], Mapping[str, Any]] | None:
        """Return the guide of an objective with these settings, and the guide's own settings; None if it has no guide."""
        if cls.GUIDE is not None:
            return cls.GUIDE, settings
        guide = settings.get("guide")
        return None if guide is None else (GUIDES[guide["name"]], guide)

    @classmethod
    def averages_positives(cls, settings: Mapping[str, Any]) -> bool:
        """Return whether the loss is a mean over all samples that match the anchor, and not the loss of its own positive."""
        return False

    @classmethod
    def loss_settings(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the name of the loss and those of the objective's settings that the loss uses."""
        used = {key: value for key, value in settings.items() if key not in cls.OF_TRAINING}
        return used if cls.LOSS is None else used | {"name": cls.LOSS}

    @classmethod
    def files(cls) -> tuple[str, ...]:
        """Return the paths in the package of the files that implement the objective, the module of these settings included."""
        name = cls.__module__.rpartition(".")[2]
        implementation = (f"losses/estimators/{name}.py",) if cls.IMPLEMENTED_IN is None else cls.IMPLEMENTED_IN
        return (f"specs/objectives/{name}.py", *implementation)


class HalfUniform(Settings):
    """Half of an anchor's target for its positive, half uniform over all samples: the control for every soft target."""

    name: Literal["half_uniform"]


class Attracted(Settings):
    """Uniform over the positive and the false negatives found by the guide: False Negative Cancellation (Huynh et al., 2022)."""

    name: Literal["fnc"]
    threshold: Real = Field(0.7, description="similarity above which a sample is found")
    top_k: Count | None = Field(10, description="largest number of samples found per anchor; null: no limit")


class Softmax(Settings):
    """A softmax of the guide's similarities: with ema, momentum distillation (ALBEF); with words or features, X-CLR."""

    name: Literal["softmax"]
    temperature: Sweepable[Positive] = Field(0.1, description="temperature of the softmax")
    share: Sweepable[Fraction] = Field(1.0, description="weight of the softmax; the rest belongs to the positive (ALBEF: 0.4)")


class Components(Settings):
    """Half positive, half uniform over a component of the other view's nearest-neighbour graph: WCL with one head."""

    name: Literal["wcl_one_head"]


TARGETS = "null: all attraction goes to the positive; half_uniform, fnc, softmax"
GUIDE = "what rates the similarity of samples: self, ema (a moving average of the networks), labels, features (from a file)"


class EstimatorObjective(Objective):
    """An objective with an estimator; subclasses add its soft targets and its guide."""

    decoupled: Boolean = Field(False, description="leave the positive out of the denominator (Yeh et al., 2022)")

    @model_validator(mode="after")
    def _guide_matches_targets_and_estimator(self):
        rated = self.targets is not None and not isinstance(self.targets, HalfUniform)
        if self.name == "glofnd" and (rated or self.guide is not None):
            setting = f".targets.name is {self.targets.name}, which needs a guide" if rated else ".guide is set"
            unused = " and ".join(key for key, is_set in {"targets": rated, "guide": self.guide is not None}.items() if is_set)
            raise ValueError(f"{setting}, but glofnd compares the networks' own similarities and takes no guide; remove {unused}")
        if self.guide is None and (rated or self.NEEDS_GUIDE):
            raise ValueError(f".guide is missing; {f'targets.name {self.targets.name}' if rated else self.name} needs one")
        switched, mode = getattr(self, "switched_off_by", None), values_of(getattr(self, "mode", None))
        if (switched is not None or "positives" in mode) and (self.targets is not None or self.decoupled):
            raise ValueError(" computes its own loss; remove targets and decoupled")
        if self.guide is not None and not (rated or self.NEEDS_GUIDE or isinstance(self, SimilarityObjective)):
            raise ValueError(".guide is not used by this objective; remove it, or set targets")
        of_views = isinstance(self, TwoViewObjective) and isinstance(self.guide, OwnGuide | AverageGuide)
        if of_views and self.name == "remove" and isinstance(self.targets, Softmax | Components):
            problem = f".targets.name is {self.targets.name}, which compares views, but remove compares whole samples"
            raise ValueError(f"{problem}; use targets.name fnc, or another objective")
        return self


class TwoViewObjective(EstimatorObjective):
    """Settings shared by objectives that compare two views of an image.

    Attributes:
        ALLOWED: type and description of settings in an image study, by name.
    """

    ALLOWED: ClassVar[Mapping[str, Any]] = {
        "class_probability": (Sweepable[ImageProbability], IMAGE_ETA),
        "alpha": (_scheduled(Location, WarmStart | Linear | Adjusted), f"{ALPHA}; may be scheduled or measured"),
        "beta": (_scheduled(NonNegative, WarmStart | Linear), f"{BETA}; may be scheduled"),
    }

    temperature: Sweepable[Positive] | None = Field(None, description="overrides training.temperature")
    targets: Annotated[HalfUniform | Attracted | Softmax | Components, Discriminator("name")] | None = Field(
        None, description=f"{TARGETS}, wcl_one_head"
    )
    guide: TwoViewGuide | None = Field(None, description=GUIDE)


class PairObjective(Objective):
    """Settings shared by objectives of image–sentence pairs."""

    logit_scale: Sweepable[Positive] | None = Field(None, description="overrides similarity.logit_scale")
    learned_logit_scale: Boolean | None = Field(None, description="overrides similarity.learned_logit_scale")


class PairEstimatorObjective(PairObjective, EstimatorObjective):
    """An objective on pairs with sentences or images as anchors.

    Attributes:
        ALLOWED: as for :class:`TwoViewObjective`, in an image–text study.
    """

    ALLOWED: ClassVar[Mapping[str, Any]] = {"class_probability": (Sweepable[SentenceProbability], SENTENCE_ETA)}

    directions: Sweepable[Literal["text", "image", "both"]] = Field(
        "text", description="text: texts are the anchors and images the negatives; image: the reverse; both: the mean of the two"
    )
    targets: Annotated[HalfUniform | Attracted | Softmax, Discriminator("name")] | None = Field(None, description=TARGETS)
    guide: PairGuide | None = Field(None, description=f"{GUIDE}, words")


class SimilarityObjective(PairEstimatorObjective):
    """An objective that uses the similarity between the texts or labels of samples."""

    by: Sweepable[Literal["text", "labels", "guide"]] = Field(
        "text",
        description="text: cosine between centred sentence embeddings of the language model that provides η; labels: 1 if the "
        "images share a positive label, else 0; guide: what the guide rates",
    )

    @classmethod
    def guide_of(cls, settings: Mapping[str, Any]) -> tuple[type[GuideSettings], Mapping[str, Any]] | None:
        guide = {"text": SentenceGuide, "labels": SharedLabelGuide}.get(settings.get("by", ""))
        return super().guide_of(settings) if guide is None else (guide, settings)

    @model_validator(mode="after")
    def _has_the_guide(self):
        if ("guide" in values_of(self.by)) != (self.guide is not None):
            raise ValueError(f".by is {self.by!r}; set .guide if, and only if, .by is 'guide'")
        return self


def completed(objective: type[Objective], kind: type[TwoViewObjective] | type[PairEstimatorObjective]) -> type[Objective]:
    """Add the shared settings of a kind of study to an objective, unless the objective already inherits them."""
    if issubclass(objective, (TwoViewObjective, PairObjective)):
        return objective
    replaced: dict[str, Any] = {
        key: (kind.ALLOWED[key][0], Field(field.get_default(), description=kind.ALLOWED[key][1]))
        for key, field in objective.model_fields.items()
        if key in kind.ALLOWED
    }
    options: dict[str, Any] = {"__doc__": objective.__doc__, "__module__": objective.__module__}
    name = f"{kind.__name__.removesuffix('Objective')}{objective.__name__}"
    return create_model(name, __base__=(objective, kind), **options, **replaced)
