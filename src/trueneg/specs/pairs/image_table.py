"""User-supplied images and texts, listed in a table."""

from typing import Literal

from pydantic import Field

from trueneg.specs.pairs.base import SplitPairSettings, TextSettings
from trueneg.specs.settings import Boolean, PathText, technical


class ImageTableSettings(TextSettings):
    """User-supplied images and texts: a CSV or parquet file with one row per image–text pair."""

    captions = True

    source: Literal["image_table"]
    path: PathText = technical(..., "folder of the images")
    table: PathText = technical(..., "the file")
    image_column: str = Field("image", description="column of the images' file names, within the folder")
    text_column: str = Field("text", description="column of the texts")
    patient_column: str | None = Field(
        None, description="column of patients, or other groups that training and test must not share; none: each image is its own"
    )
    split_sentences: Boolean = Field(True, description="true: a text is a report, whose sentences are split; false: one sentence")
    restricted: Boolean = Field(
        False, description="true: no text or image reaches a log, a figure or the page, and files are their owner's alone"
    )


class ImageTablePairSettings(SplitPairSettings):
    """User-supplied images, with texts from a likelihood study that reads the same table."""

    source: Literal["image_table"]
    colour: Boolean = Field(False, description="true: three channels; false: grey")
    label_columns: list[str] = Field([], description="columns of labels, 1, 0 or empty for unknown, if the table has any")

    @property
    def labelled(self) -> bool:  # type: ignore[override]  # a class attribute in sources with a fixed answer
        """Whether images have labels: true if label columns are given."""
        return bool(self.label_columns)


TEXTS = ImageTableSettings
PAIRS = ImageTablePairSettings
