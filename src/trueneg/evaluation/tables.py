"""Write tables as parquet files."""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from trueneg.io.files import atomic_write


def write_tables(tables: Mapping[str | Path, pd.DataFrame]) -> None:
    """Write tables as parquet files, each at its path."""
    for path, table in tables.items():
        with atomic_write(path) as temporary:
            table.to_parquet(temporary, index=False)
