"""Settings shared by sources of texts and sources of images with sentences."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from trueneg.specs.resources import ReadingResources
from trueneg.specs.settings import (
    Count,
    Integer,
    Leakage,
    OpenFraction,
    Settings,
    Sweepable,
    Technical,
)

SEED = "{seed}"  # in the name of a corpus, stands for the seed of a run


class TextSettings(Settings):
    """Texts with sentences to score.

    Attributes:
        captions: whether the texts belong to named images; if so, the source's module writes their
            sentences.
        classes_known: whether the classes of sentences are known.

    If texts or images of a source must not be shown, it defines ``restricted`` as a class attribute
    or a setting.
    """

    captions: ClassVar[bool] = False
    classes_known: ClassVar[bool] = False
    if TYPE_CHECKING:  # each source has its own name, which pydantic uses as the discriminator
        source: str


class PairSettings(Settings):
    """Images and the sentences of their reports.

    Attributes:
        labelled: whether the images have labels.
        label_names: names of the labels, if there are any.
        truth_known: whether it is known, for at least some sentences, which images they describe
            correctly.
        probabilities_known: whether the class probability of every sentence is known.
        boxed: whether boxes locate the findings in an image.
        boxed_splits: splits whose images may have boxes.
        greyscale: whether the images are greyscale.
        rated: whether people have rated which captions of other images also describe an image.
        TEXT_TABLES: text tables to join with the images.
        RESOURCES: resources of the join, unless the configuration overrides them.
    """

    labelled: ClassVar[bool] = True
    label_names: ClassVar[Sequence[str]] = (
        "cardiomegaly",
        "edema",
        "effusion",
        "pneumonia",
        "pneumothorax",
    )
    truth_known: ClassVar[bool] = False
    probabilities_known: ClassVar[bool] = False
    boxed: ClassVar[bool] = False
    boxed_splits: ClassVar[tuple[str, ...]] = ("validation", "test")
    greyscale: ClassVar[bool] = True
    rated: ClassVar[bool] = False
    TEXT_TABLES: ClassVar[tuple[str, ...]] = ("sentences", "eta")
    RESOURCES: ClassVar[ReadingResources] = ReadingResources(mem_mb=4000, runtime=120, threads=2)

    text: Technical[str]
    """likelihood study that provides the reports, their classes and their class probabilities"""
    corpus: Technical[str | None] = None
    """corpus of that study; none: its only corpus; seed={seed}: each seed has its own, whose
    `reports.seed` is the same
    """
    images: Sweepable[Count] | None = None
    """number of reports to use, starting with the first; none: all"""
    resolution: Sweepable[Annotated[Integer, Field(ge=32, le=1024)]] = 64
    """side of the images in pixels"""
    leakage: Leakage = None

    @property
    def resplit(self) -> bool:
        """Whether each seed holds out different test images of the same data: false with official
        splits.
        """
        return False

    @property
    def corpus_per_seed(self) -> bool:
        """Whether each seed is trained and tested on its own corpus."""
        return SEED in (self.corpus or "")


class SplitPairSettings(PairSettings):
    """Images and sentences that are split by patient, differently for each seed."""

    test: OpenFraction = 0.2
    """share of the patients held out for testing"""
    validation: OpenFraction = 0.1
    """share of the patients held out for model selection"""

    @property
    def resplit(self) -> bool:
        """True unless each seed has its own corpus."""
        return not self.corpus_per_seed
