"""The phantom's reports as a text source, with the ground truth about their sentences."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueneg.data.phantom.reports import phantom_reports
from trueneg.text import privacy
from trueneg.text.reports import COLUMNS, USED

log = logging.getLogger(__name__)


def prepare_phantom(
    settings: Mapping[str, Any], *, seed: int, reports: str | Path, assigned: str | Path, classes: str | Path
) -> None:
    """Draw the phantom's reports and write them in the format of :func:`trueneg.text.reports.prepare_reports`.

    Args:
        settings: ``reports`` (number of reports), ``exponent``, ``correlation``; see
            :func:`~trueneg.data.phantom.reports.phantom_reports`.
        seed: seed of all random draws.
        reports: parquet file to write.
        assigned: parquet file to write: ``report``, ``index``, ``class`` of every sentence.
        classes: parquet file to write: ``class``, ``probability``, ``kind`` and other properties of each class.
    """
    made = phantom_reports(settings["reports"], seed, settings["exponent"], settings["correlation"])
    table = made.reports.assign(patient=made.reports["report"], state=USED, reason="", sections="findings")
    log.info("phantom: %s reports, %s sentences", f"{len(table):,}", f"{len(made.sentences):,}")
    privacy.write_table(table[COLUMNS], reports, restricted=False)
    privacy.write_table(made.sentences[["report", "index", "class"]], assigned, restricted=False)
    privacy.write_table(made.classes, classes, restricted=False)
