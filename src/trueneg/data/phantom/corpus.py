"""The phantom's reports as a source of text, with the truth about their sentences beside them."""

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
    """Draw the phantom's reports, and write them as :func:`trueneg.text.reports.prepare_reports` writes those of other sources.

    Args:
        settings: ``reports`` (how many), ``exponent``, ``correlation``: of
            :func:`~trueneg.data.phantom.reports.phantom_reports`.
        seed: of everything.
        reports: parquet file to write.
        assigned: parquet file to write: ``report``, ``index``, ``class``, of every sentence.
        classes: parquet file to write: ``class``, ``probability``, ``kind``, and what else is known of each.
    """
    made = phantom_reports(settings["reports"], seed, settings["exponent"], settings["correlation"])
    table = made.reports.assign(patient=made.reports["report"], state=USED, reason="", sections="findings")
    log.info("phantom: %s reports, %s sentences", f"{len(table):,}", f"{len(made.sentences):,}")
    privacy.write_table(table[COLUMNS], reports, restricted=False)
    privacy.write_table(made.sentences[["report", "index", "class"]], assigned, restricted=False)
    privacy.write_table(made.classes, classes, restricted=False)
