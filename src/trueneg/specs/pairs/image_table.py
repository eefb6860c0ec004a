"""Own images with their texts, named in a table."""

from typing import Literal

from pydantic import Field

from trueneg.specs.pairs.base import SplitPairSettings, TextSettings
from trueneg.specs.settings import Boolean, PathText, technical


class ImageTableSettings(TextSettings):
    """Own images with their texts: a CSV or parquet file with a row an image and a text of it."""

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
    """Own images, with the texts of a likelihood study that reads the same table."""

    source: Literal["image_table"]
    colour: Boolean = Field(False, description="true: three channels; false: grey")
    label_columns: list[str] = Field([], description="columns of labels, 1, 0 or empty for unknown, if the table has any")

    @property
    def labelled(self) -> bool:  # type: ignore[override]  # a class attribute of sources that always know
        """Whether images have labels: where columns of the table are named."""
        return bool(self.label_columns)


TEXTS = ImageTableSettings
PAIRS = ImageTablePairSettings
