"""Select the winners of a tuned study's first stage."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.io.files import write_tables, write_text
from trueneg.store.rows import load_rows
from trueneg.store.winners import as_text, select_from


def select_winners(
    paths: Iterable[str | Path], settings: Mapping[str, Any], *, winners: str | Path, validation: str | Path
) -> None:
    """Select one candidate of each tuned objective on each data set, from the pilot seeds' rows.

    Args:
        paths: rows of the candidates, one file per block of pilot seeds.
        settings: result of :func:`trueneg.store.winners.selecting`.
        winners: JSON file to write. The same rows give the same bytes, so rewriting it reruns nothing.
        validation: parquet file to write with the rows of the validation split; those of the test split are not gathered.

    Raises:
        UserError: if a candidate has no validation rows of the measurement.
    """
    content, rows = select_from(pd.concat(map(load_rows, paths), ignore_index=True), settings)
    write_tables({validation: rows})
    write_text(winners, as_text(content))
