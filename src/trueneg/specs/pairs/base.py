"""What every source of texts, and of images with sentences, can say."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from trueneg.specs.resources import Resources
from trueneg.specs.settings import Count, Integer, OpenFraction, Settings, Sweepable, technical


class TextSettings(Settings):
    """Texts whose sentences are scored.

    Attributes:
        captions: whether they belong to images by name: the source's module writes their sentences.
        classes_known: whether the classes of sentences are known.

    A source whose text must not be shown says so as ``restricted``, for all or as a setting; likewise one of images.
    """

    captions: ClassVar[bool] = False
    classes_known: ClassVar[bool] = False
    if TYPE_CHECKING:  # each source has its own name, by which pydantic tells them apart
        source: str


class PairSettings(Settings):
    """Images, and the sentences of their reports.

    Attributes:
        labelled: whether the images have labels.
        truth_known: whether it is known, of some sentences at least, what images they are true of.
        boxed: whether boxes say where in an image a finding is.
        rated: whether people have said which captions of other images describe an image.
        TEXT_TABLES: the tables of its texts that the images are joined with.
        RESOURCES: what joining them asks for, unless the configuration says otherwise.
    """

    labelled: ClassVar[bool] = True
    truth_known: ClassVar[bool] = False
    boxed: ClassVar[bool] = False
    rated: ClassVar[bool] = False
    TEXT_TABLES: ClassVar[tuple[str, ...]] = ("sentences", "eta")
    RESOURCES: ClassVar[Resources] = Resources(mem_mb=4000, runtime=120, threads=2)

    text: str = technical(..., "the likelihood study that the reports, their classes and class probabilities come from")
    corpus: str | None = technical(None, "which of its corpora; none: the only one")
    images: Sweepable[Count] | None = Field(None, description="images of at most so many reports, the first; none: all")
    resolution: Sweepable[Annotated[Integer, Field(ge=32, le=1024)]] = Field(64, description="side of the images, in pixels")


class SplitPairSettings(PairSettings):
    """Images and sentences that each seed splits by patient."""

    test: OpenFraction = Field(0.2, description="share of the patients held out for testing")
    validation: OpenFraction = Field(0.1, description="share of the patients held out for choices")
