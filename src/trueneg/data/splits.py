"""Stratified splits and samples by seed, and their files."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trueneg.data.mistakes import intact
from trueneg.io.files import atomic_write


def first_of_each_class(labels: np.ndarray, counts: Mapping[int, int], seed: int) -> np.ndarray:
    """Return the sorted int64 positions of a random sample: the given number per class in `counts`, all of other classes.

    Each class has its own generator, so its order does not depend on the other classes.

    Args:
        labels: integers, shape (n,).
        counts: sample size per class; smaller classes are taken in full.
        seed: a non-negative integer; for the same seed, a sample with smaller counts is a subset of one with larger counts.
    """
    chosen = [np.empty(0, np.int64)]
    for label in np.unique(labels).tolist():
        order = np.random.default_rng((seed, label)).permutation(np.flatnonzero(labels == label))
        chosen.append(order[: counts.get(label, len(order))])
    return np.sort(np.concatenate(chosen))


def stratified_split(labels: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Hold out a fraction of each class; every class needs at least two samples.

    Args:
        labels: integers, shape (n,).
        fraction: in (0, 1); round(fraction · n_c) of the n_c samples of a class are held out, at least one but not all.
        seed: a non-negative integer; for the same seed, a smaller fraction holds out a subset of what a larger one does.

    Returns:
        The held-out positions and the remaining positions, as sorted int64 arrays that together cover all samples.

    Example:
        >>> held_out, rest = stratified_split(np.array([0, 0, 0, 0, 1, 1]), 0.25, seed=1)
        >>> len(held_out), len(rest)
        (2, 4)
    """
    sizes = dict(zip(*(array.tolist() for array in np.unique(labels, return_counts=True)), strict=True))
    counts = {label: min(max(round(fraction * size), 1), size - 1) for label, size in sizes.items()}
    held_out = first_of_each_class(labels, counts, seed)
    return held_out, np.setdiff1d(np.arange(len(labels)), held_out, assume_unique=True)


def write_splits(
    subsets: Sequence[Any], splits: Sequence[str], described: Sequence[Mapping[str, Any]], path: str | Path, key: bytes
) -> None:
    """Write the subsets of several seeds atomically as one table with one row per position.

    Args:
        subsets: objects with ``seed``, one array of positions per split (named after the split), and optionally ``labels`` of
            all positions.
        splits: names of the splits.
        described: attributes of each subset, stored as JSON in the schema's metadata.
        path: parquet file to write, with columns ``seed``, ``split``, ``index``, and ``label`` if the subsets have labels.
        key: key of the metadata entry.
    """
    rows = [(subset, split, getattr(subset, split)) for subset in subsets for split in splits]
    columns = {
        "seed": np.concatenate([np.full(len(positions), subset.seed, np.int64) for subset, _, positions in rows]),
        "split": np.concatenate([np.full(len(positions), split) for _, split, positions in rows]),
        "index": np.concatenate([positions for _, _, positions in rows]),
    }
    if hasattr(subsets[0], "labels"):
        columns["label"] = np.concatenate([subset.labels[positions] for subset, _, positions in rows])
    table = pa.table(columns).replace_schema_metadata({key: json.dumps(described)})
    with atomic_write(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


@contextlib.contextmanager
def readable_splits(path: str | Path, key: bytes) -> Iterator[list[tuple[dict[str, Any], pd.DataFrame]]]:
    """Yield the description and rows of each subset that :func:`write_splits` wrote; unpack them within the block.

    Raises:
        UserError: if the file is missing, is damaged, or does not contain splits.
    """
    with intact(path, "table of subsets"):
        table = pq.read_table(path, page_checksum_verification=True)
        rows = table.to_pandas()
        yield [(entry, rows[rows["seed"] == entry["seed"]]) for entry in json.loads(table.schema.metadata[key])]


def positions_of(rows: pd.DataFrame, splits: Sequence[str]) -> dict[str, Any]:
    """Return the int64 positions of each split, given the rows of one subset."""
    return {split: rows.loc[rows["split"] == split, "index"].to_numpy() for split in splits}
