"""User-supplied texts, listed in a table."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from trueneg.specs.settings import (
    SPLIT_COLUMN,
    Boolean,
    NonEmpty,
    PathText,
    Settings,
    SkipIncomplete,
    Technical,
    values_of,
)
from trueneg.specs.texts.base import TextPairSettings

_NAME_OR_LIST = Discriminator(lambda setting: "list" if isinstance(setting, list) else "name")
# A column, or alternatives, of which the first that is not empty counts.
Column = Annotated[
    Annotated[str, Tag("name")] | Annotated[NonEmpty[str], Tag("list")], _NAME_OR_LIST
]
# A column, or several whose values are combined.
Columns = Annotated[
    Annotated[str, Tag("name")] | Annotated[NonEmpty[Column], Tag("list")], _NAME_OR_LIST
]


def column_names(columns: Any) -> list[str]:
    """Return the names of a setting of columns, in their order.

    Example:
        >>> column_names([["concept", "name"], "kind"]), column_names("label"), column_names(None)
        (['concept', 'name', 'kind'], ['label'], [])
    """
    if isinstance(columns, list):
        return [name for part in columns for name in column_names(part)]
    return [] if columns is None else [columns]


class TextTableColumns(Settings):
    """A table with one row per text or per pair."""

    source: Literal["text_table"]
    path: Technical[PathText]
    """path of the table: CSV, TSV, JSON lines (.jsonl) or parquet"""
    text_column: str = "text"
    """name of the column with the texts, the anchors of given pairs"""
    positive_column: str | None = None
    """given pairs: name of the column with the positives, one text or a JSON list; one of several
    is drawn in each epoch
    """
    negative_columns: list[str] = Field([])
    """names of columns with hard negatives, one text or a JSON list; rows may have fewer than
    others, or none
    """
    label_column: Columns | None = None
    """name of the column with the label of the row; none: no labels; `[a, b]`: rows with equal
    values in both columns have one label; `[[a, b], c]`: b where a is empty
    """
    split_column: str | None = Field(None, description=SPLIT_COLUMN)
    group_column: Columns | None = None
    """name of a column with what must not be split between training and test, such as an author or
    a document; lists as in label_column; none: each text is its own group
    """
    restricted: Boolean = False
    """true: texts are never shown, and only you can read their files"""
    skip_incomplete: SkipIncomplete = False
    """true: leave out and count rows without a text, positive or label, up to a tenth of all rows;
    a number or a share: at most this many; false: refuse them
    """


class TextTableSettings(TextTableColumns, TextPairSettings):
    """User-supplied texts: a table with one row per text or per pair."""

    test_path: Technical[PathText | None] = None
    """table with the test texts, in the same columns; none: `test` of the rows"""

    @property
    def tested(self) -> bool:
        """Whether there are test texts of the user's own: a table or a split with them."""
        return self.test_path is not None or self.split_column is not None

    @property
    def labelled(self) -> bool:
        """Whether texts have labels: true if a label column is named."""
        return self.label_column is not None

    @model_validator(mode="after")
    def _columns_fit(self):
        positives = values_of(self.positives)
        if ("given" in positives) != (self.positive_column is not None):
            raise ValueError(
                f".positives is {', '.join(positives)}; set .positive_column if, and only if,"
                " .positives is given"
            )
        if self.test_path is not None and self.split_column is not None:
            raise ValueError(".test_path and .split_column are both set; remove one")
        if self.label_column is None and ("same_label" in positives or self.labels is not None):
            raise ValueError(
                ".label_column is missing; .positives: same_label and .labels need labels"
            )
        return self
