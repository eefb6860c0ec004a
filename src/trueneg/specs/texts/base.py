"""Settings shared by sources of texts for text studies."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from trueneg.specs.settings import (
    AtLeastTwo,
    CountFromZero,
    Fraction,
    Leakage,
    OpenFraction,
    PathText,
    Real,
    Seed,
    Settings,
    Sweepable,
    Technical,
    values_of,
)


class LabelSets(Settings):
    """Three sets of labels, drawn once for the whole study."""

    train: AtLeastTwo
    """number of labels to train on"""
    validation_unseen: CountFromZero = 0
    """number of labels that are never trained on, for selection"""
    test_unseen: CountFromZero = 0
    """number of labels that are never trained on, for results"""
    seed: Seed = 0
    """seed of the draw, the same for all runs"""


class RunLabels(LabelSets):
    """Three sets of labels, drawn once for the whole study, and how many of the first one each run
    is trained on.
    """

    per_run: Sweepable[AtLeastTwo] | None = None
    """K training labels drawn for each seed; none: all of them"""
    fraction: Sweepable[Fraction] = 1.0
    """share of the texts to keep for every second label of a run"""
    texts: Sweepable[AtLeastTwo] | None = None
    """number of training texts per run, divided equally (see imbalance) among its labels as far as
    available; none: all texts, after `fraction`
    """
    imbalance: Sweepable[Annotated[Real, Field(ge=1)]] = 1.0
    """ratio of the largest to the smallest label of a run, with a constant factor from label to
    label; needs texts
    """

    @model_validator(mode="after")
    def _enough_labels(self):
        for key in ("validation_unseen", "test_unseen"):
            if getattr(self, key) == 1:
                raise ValueError(
                    f".{key} is 1; expected 0, or at least 2, because evaluation distinguishes"
                    " labels"
                )
        for count in values_of(self.per_run):
            if count is not None and count > self.train:
                raise ValueError(
                    f".per_run is {count}; expected at most the {self.train} labels of .train"
                )
        if values_of(self.texts) == [None] and values_of(self.imbalance) != [1.0]:
            raise ValueError(".imbalance has no effect without .texts; set .texts")
        if values_of(self.texts) != [None] and values_of(self.fraction) != [1.0]:
            raise ValueError(".fraction has no effect with .texts; use .imbalance")
        return self


class RatedPairSettings(Settings):
    """A table of pairs of texts with a rating of their similarity."""

    path: Technical[PathText]
    """path of the table: CSV, TSV, JSON lines (.jsonl) or parquet"""
    first_column: str = "first"
    """name of the column with the first text"""
    second_column: str = "second"
    """name of the column with the second text"""
    score_column: str = "score"
    """name of the column with the rating, a number; larger: more similar"""


class TextPairSettings(Settings):
    """Texts and their positives."""

    if TYPE_CHECKING:  # each source has its own name, which pydantic uses as the discriminator
        source: str

    text: Technical[str | None] = None
    """likelihood study of the same texts, for class probabilities; none: no probabilities"""
    corpus: Technical[str | None] = None
    """corpus of that study; none: its only corpus"""
    positives: Sweepable[Literal["given", "same_label", "dropout"]] = "same_label"
    """given: pairs of the table; same_label: another text with the label, as in pairs of an unnamed
    class, so only objectives that declare labels see the label; dropout: the text itself, with
    other dropout masks
    """
    labels: RunLabels | None = None
    """sets of labels with and without training; none: all are trained on"""
    validation: OpenFraction = 0.1
    """share of each label's texts (or of the pairs) held out for selection"""
    test: OpenFraction = 0.2
    """share held out for testing, unless the source has test texts"""
    leakage: Leakage = None
    rated: Technical[RatedPairSettings | None] = None
    """rated pairs, for the evaluation of similarities; they are part of the data, so adding them
    retrains all runs
    """

    @property
    def labelled(self) -> bool:
        """Whether the texts have labels."""
        return True

    @property
    def tested(self) -> bool:
        """Whether the source has test texts of its own."""
        return True

    @property
    def resplit(self) -> bool:
        """Whether each seed draws other labels, or holds out other test texts, of the same data."""
        return not self.tested or (self.labels is not None and self.labels.per_run is not None)
