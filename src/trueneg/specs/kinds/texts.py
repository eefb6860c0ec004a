"""The typed model of a text study.

A list in place of a single value is a sweep: lists under ``dataset`` define several data sets;
lists under ``text_encoder``, ``positive_encoder``, ``projection``, ``similarity``, ``training`` or
an objective define several variants of each objective.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from trueneg.specs import tasks
from trueneg.specs.discovery import union_of
from trueneg.specs.encoders import BY_NAME, FROZEN, OpenClipTextSettings, TextTower, one_network
from trueneg.specs.guides.base import LANGUAGE_MODEL
from trueneg.specs.kinds.pairs import PairTrainingSettings, ScaleSettings
from trueneg.specs.kinds.trained import CONDITIONS, UNTRAINED, PrimarySettings, TrainedStudy
from trueneg.specs.objectives import OF_PAIRS
from trueneg.specs.objectives.released import UntrainedTexts
from trueneg.specs.sections import Section
from trueneg.specs.settings import (
    AtLeastTwo,
    Count,
    Name,
    Settings,
    Share,
    Sweepable,
    at_defaults,
    values_of,
)
from trueneg.specs.texts import AnyTextPairs

if TYPE_CHECKING:  # type checkers cannot see tasks and objectives discovered at import
    from typing import Any as AnyObjective
    from typing import Any as TaskName
    from typing import Any as TextEvaluationSettings
else:
    TaskName = Literal[tasks.names_in_rows(tasks.TEXTS)]
    AnyObjective = union_of(
        "name", *(objective for objective in OF_PAIRS if not objective.MASKS_WORDS), UntrainedTexts
    )
    TextEvaluationSettings = tasks.evaluation_section(
        "TextEvaluationSettings", "Evaluations of the encoders.", tasks.TEXTS
    )


class TextProjectionSettings(Settings):
    """The trained head of each tower."""

    name: Sweepable[Literal["residual", "linear", "mlp", "none"]] = "residual"
    """residual: starts as the identity if sizes agree; mlp: two layers; none: the tower's own
    vectors
    """
    dimensions: Sweepable[AtLeastTwo] | None = None
    """D, size of the embedding; none: that of the tower"""
    hidden: Sweepable[Count] | None = None
    """width of the hidden layer of mlp and residual; none: D"""
    dropout: Sweepable[Share] = 0.0
    """dropout probability of the hidden layer"""


class TextTrainingSettings(PairTrainingSettings):
    """Optimisation settings and resources for training."""

    kind: Literal["text"] = "text"
    """trains on pairs of texts"""


class TextContrast(PrimarySettings):
    """The study's primary comparison, fixed before it runs; others are exploratory, unless
    `contrasts` gives them a family.
    """

    task: TaskName = "knn"
    """evaluation task"""
    metric: str = "accuracy"
    """metric with a chance level: accuracy, R (with k), MAP or Spearman"""


class TextFigures(Settings):
    """Optional figures; text studies have none yet."""


class TextStudy(TrainedStudy):
    """A text study: texts, towers, objectives, seeds, evaluation and the primary comparison."""

    CHECKED_BY = "trueneg.config.checks.texts:contradictions"
    SECTIONS = ("text_encoder", "positive_encoder", "projection", "similarity", "training")
    TASKS = tasks.TEXTS
    SAMPLES = FOLDER = "texts"
    SPLITTING = ("labels", "validation", "test", "leakage")
    READER = "trueneg.data.texts.text_source:read_texts"
    SPLITTER = "trueneg.data.texts.text_splits:text_subset"
    TRAINING = "trueneg.training.text_pairs:TextPairs"
    EXPORTED_BY = "trueneg.training.export:pair_encoders"
    FALSE_NEGATIVES = "trueneg.data.false_negatives:of_texts"
    FIRST_LOOK = "trueneg.data.texts.reading:first_look"
    PASSES = ("text_encoder", "positive_encoder")
    TABLES = ("texts",)

    kind: Literal["text"]
    """text: train text encoders on pairs of texts"""
    dataset: AnyTextPairs
    text_encoder: Annotated[TextTower, BY_NAME]
    positive_encoder: Annotated[TextTower, BY_NAME] | None = None
    """tower of the positives, such as documents; none: they share text_encoder and its head"""
    projection: TextProjectionSettings = Field(default_factory=TextProjectionSettings)
    similarity: ScaleSettings = Field(default_factory=ScaleSettings)
    training: TextTrainingSettings
    conditions: list[Literal["batch_size", "learning_rate", "epochs", "updates"]] = Field(
        [], description=CONDITIONS
    )
    objectives: dict[Name, AnyObjective] = Field(min_length=2)
    evaluation: TextEvaluationSettings = Field(default_factory=TextEvaluationSettings)
    primary: TextContrast
    figures: TextFigures = Field(default_factory=TextFigures)

    @classmethod
    def before_training(cls, keys: Section) -> Section | None:
        anchors = keys.get("text_encoder")
        return (
            {"name": UNTRAINED}
            if one_network(anchors, keys.get("positive_encoder") or anchors)
            else None
        )

    @model_validator(mode="after")
    def _something_to_train(self):
        towers = [
            tower for tower in (self.text_encoder, self.positive_encoder) if tower is not None
        ]
        is_frozen = all(tower.train == FROZEN for tower in towers)
        if "none" in values_of(self.projection.name) and is_frozen:
            raise ValueError(
                ".projection.name is none, and all towers have train: none, so nothing is trained;"
                " change one"
            )
        masks = 0 not in values_of(self.projection.dropout) and {
            *values_of(self.projection.name)
        } <= {"residual", "mlp"}
        # Towers of open_clip have no dropout of their own.
        has_dropout = any(
            tower.train != FROZEN and not isinstance(tower, OpenClipTextSettings)
            for tower in towers
        )
        if "dropout" in values_of(self.dataset.positives) and not (masks or has_dropout):
            raise ValueError(
                ".dataset.positives is dropout, but neither a head nor a trained tower has"
                " dropout, so a text and its positive are equal; set projection.dropout of a"
                " residual or mlp head"
            )
        return self

    @property
    def same_text(self) -> str:
        """Other given pairs with the anchor are known to match."""
        return "known" if values_of(self.dataset.positives) == ["given"] else "exclude"

    @property
    def positives_by_label(self) -> bool:
        return "same_label" in values_of(self.dataset.positives)

    @property
    def provided(self) -> dict[str, bool]:
        data = self.dataset
        needs = dict.fromkeys(
            ("labels", "known matches", "known class probabilities"), data.labelled
        )
        needs |= {
            "given pairs or labels": values_of(data.positives) == ["given"] or data.labelled,
            "rated pairs": data.rated is not None,
        }
        return needs | {LANGUAGE_MODEL: data.text is not None}

    def sections_of(self, objective: Settings) -> dict[str, Any]:
        sections = {
            name: section
            for name, section in super().sections_of(objective).items()
            if section is not None
        }
        if sections["objective"].TRAINED:
            return sections
        # Reset settings that only affect training to their defaults, so that they do not enter the
        # run's identity.
        untrained = {"projection": TextProjectionSettings(name="none")}
        if other := sections["objective"].text_encoder:
            sections.pop("positive_encoder", None)
            untrained["text_encoder"] = other
        unused = ("similarity", "training", "objective")
        return sections | untrained | {name: at_defaults(sections[name]) for name in unused}

    def negatives(self, batch_size: int) -> int:
        hard: Any = getattr(self.dataset, "negative_columns", ())
        return (1 + len(hard)) * batch_size - 1
