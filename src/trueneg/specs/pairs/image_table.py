"""User-supplied images and texts, listed in a table."""

from typing import Any, Literal

from pydantic import Field, model_validator

from trueneg.specs.languages import Language
from trueneg.specs.pairs.base import SplitPairSettings, TextSettings
from trueneg.specs.settings import SPLIT_COLUMN, Boolean, PathText, SkipIncomplete, Technical

OWN_LOOP = "use CrossModalLoss in a loop of your own (docs/losses.md#pairs-and-hard-negatives)"
# Hard negative captions belong to images, which are the columns of a training step.
NO_CAPTIONS = f"image–text studies train without hard negative captions; for these, {OWN_LOOP}"


def _refuse_hard_negatives(settings: Any) -> Any:
    """Refuse columns of hard negative texts, which text studies have."""
    if isinstance(settings, dict) and "negative_columns" in settings:
        raise ValueError(
            f".negative_columns is set, but {NO_CAPTIONS}. Hard negatives of the texts are images:"
            " set negative_image_columns of the data set, or remove it"
        )
    return settings


class ImageTableSettings(TextSettings):
    """User-supplied images and texts: a table with one row per image–text pair."""

    captions = True
    check_hard_negatives = model_validator(mode="before")(_refuse_hard_negatives)

    text_column: str = "text"
    """name of the column with the texts"""
    patient_column: str | None = None
    """name of the column with patients, or other groups that must not be split between training and
    test; none: each image is its own group
    """
    language: Language = "en"
    """language, for splitting sentences; none: each paragraph is a sentence"""
    restricted: Boolean = False
    """true: texts and images are never shown, and only you can read their files"""
    source: Literal["image_table"]
    path: Technical[PathText]
    """folder of the images"""
    table: Technical[PathText]
    """path of the table: CSV, TSV, JSON lines (.jsonl) or parquet"""
    image_column: str = "image"
    """name of the column with the images' file names, relative to the folder"""
    split_sentences: Boolean = True
    """true: texts are split into sentences; false: each text is one sentence"""
    skip_incomplete: SkipIncomplete = False
    """true: leave out and count rows without an image, text or patient, with a missing image file,
    or with the image and text of an earlier row, up to a tenth of all rows; a number or a share: at
    most this many; false: refuse them
    """


class ImageTablePairSettings(SplitPairSettings):
    """User-supplied images, with texts from a likelihood study that reads the same table."""

    check_hard_negatives = model_validator(mode="before")(_refuse_hard_negatives)

    source: Literal["image_table"]
    colour: Boolean = False
    """true: RGB images; false: greyscale images"""
    label_columns: list[str] = Field([])
    """names of label columns, with 1, 0, or empty for unknown"""
    split_column: str | None = Field(None, description=SPLIT_COLUMN)
    negative_image_columns: list[str] | None = None
    """names of columns with hard negatives of the row's text: an image that has rows of its own, or
    a JSON list of such images; rows may have fewer than others, or none
    """

    @property
    def resplit(self) -> bool:
        """True without splits of the user's own."""
        return super().resplit and self.split_column is None

    @property
    def labelled(self) -> bool:  # type: ignore[override]  # a class attribute in other sources
        """Whether images have labels: true if label columns are given."""
        return bool(self.label_columns)

    @property
    def label_names(self) -> list[str]:  # type: ignore[override]  # as above
        """Names of the label columns."""
        return self.label_columns

    @property
    def greyscale(self) -> bool:  # type: ignore[override]  # as above
        """Whether images are read in greyscale."""
        return not self.colour
