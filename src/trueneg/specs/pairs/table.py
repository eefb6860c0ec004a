"""User-supplied reports without images."""

from typing import Literal

from pydantic import Field

from trueneg.specs.pairs.base import OwnTextSettings
from trueneg.specs.settings import PathText, technical


class ReportTableSettings(OwnTextSettings):
    """User-supplied reports: a CSV or parquet file with one row per report."""

    source: Literal["table"]
    path: PathText = technical(..., "path of the table")
    id_column: str = Field("report", description="name of the column with the reports' ids")
