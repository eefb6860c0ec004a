"""Sources of images with sentences: one module each, found by the name that a configuration gives."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.data.pairs.pair_source import beside
from trueneg.text import privacy

TABLES = ("boxes", "splits", "ratings", "classes")  # what a source may know besides images and sentences


def prepare_pairs(
    settings: Mapping[str, Any], text: Mapping[str, str | Path], pairs: str | Path, *, cache: str | Path, threads: int
) -> None:
    """Join a source's images with their sentences.

    Args:
        settings: ``source``, and what the ``prepare`` of its module asks for.
        text: parquet files by name: ``sentences``, and the tables of its reports that the source asks for.
        pairs: .npz file to write, the sentences beside it, and each of :data:`TABLES`, empty where the source has none.
        cache: folder of decoded images.
        threads: that decode or draw.

    Raises:
        UserError: if something is missing or damaged, or the tables do not belong together.
    """
    module = importlib.import_module(f"trueneg.data.pairs.{settings['source']}")
    Path(pairs).parent.mkdir(parents=True, exist_ok=True)
    module.prepare(settings, text, pairs, cache=cache, threads=threads)
    for table in TABLES:
        if not beside(pairs, table).exists():
            privacy.write_table(pd.DataFrame(), beside(pairs, table), restricted=False)
