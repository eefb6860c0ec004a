"""User-supplied reports without images."""

from typing import Literal

from pydantic import Field

from trueneg.specs.pairs.base import TextSettings
from trueneg.specs.settings import Boolean, PathText, technical


class ReportTableSettings(TextSettings):
    """User-supplied reports: a CSV or parquet file with one row per report."""

    source: Literal["table"]
    path: PathText = technical(None, "the file")
    id_column: str = Field("report", description="column of the reports' names")
    text_column: str = Field("text", description="column of the reports' texts")
    patient_column: str | None = Field(None, description="patient ID column; none: each report is a separate patient")
    restricted: Boolean = Field(
        False, description="true: no text reaches a log, a figure or the page, and files are their owner's alone"
    )


TEXTS = ReportTableSettings
