"""The training curves in an archive."""

import io
from pathlib import Path

import pandas as pd

from trueneg.store.archive import read_archive
from trueneg.store.run_store import RunStore


def curves_of(path: Path) -> pd.DataFrame:
    """Return the training curves of all runs in an archive that have one."""
    archive = read_archive(path)
    curves = []
    for block in archive.description.blocks.values():
        for run in block.manifest["runs"]:
            content = archive.files_of(run["id"]).get(RunStore.CURVES)
            if content is not None:
                curve = pd.read_parquet(io.BytesIO(content))
                curves.append(curve.assign(**block.names, seed=run["seed"], run=run["id"]))
    return pd.concat(curves, ignore_index=True)
