"""User-supplied reports without images."""

from typing import Literal

from pydantic import Field

from trueneg.specs.pairs.base import OwnTextSettings
from trueneg.specs.settings import PathText, SkipIncomplete, technical


class ReportTableSettings(OwnTextSettings):
    """User-supplied reports: a table with one row per report."""

    source: Literal["table"]
    path: PathText = technical(..., "path of the table: CSV, TSV, JSON lines (.jsonl) or parquet")
    id_column: str = Field("report", description="name of the column with the reports' ids")
    skip_incomplete: SkipIncomplete = Field(
        False,
        description="true: leave out and count rows without an id or patient, or equal to an earlier row, up to a tenth of "
        "all rows; a number or a share: up to so many; false: refuse them",
    )
