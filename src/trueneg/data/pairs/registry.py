"""Sources of images with sentences: one module each, found by the name that a configuration gives."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from trueneg.data.pairs.pair_source import beside
from trueneg.text import privacy

TABLES = ("boxes", "splits", "ratings", "classes")  # what a source may know besides images and sentences


def write_captions(
    settings: Mapping[str, Any], *, sentences: str | Path, unique: str | Path, cache: str | Path, processes: int
) -> None:
    """Write the sentences of a source whose texts belong to images by name.

    Args:
        settings: ``source``, and what the ``write_captions`` of its module asks for.
        sentences, unique: parquet files to write, as :func:`trueneg.text.sentences.split_reports` does.
        cache: folder of texts that were split before.
        processes: that split.

    Raises:
        UserError: if something of the source is missing or damaged.
    """
    source_module(settings["source"]).write_captions(
        settings, sentences=sentences, unique=unique, cache=cache, processes=processes
    )


def source_module(name: str) -> ModuleType:
    """What reads a source: ``prepare``, and where the source has files of the user's, ``user_files`` and ``missing``."""
    return importlib.import_module(f"trueneg.data.pairs.{name}")


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
    Path(pairs).parent.mkdir(parents=True, exist_ok=True)
    source_module(settings["source"]).prepare(settings, text, pairs, cache=cache, threads=threads)
    for table in TABLES:
        if not beside(pairs, table).exists():
            privacy.write_table(pd.DataFrame(), beside(pairs, table), restricted=False)
