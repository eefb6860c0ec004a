"""Stratified splits and samples by seed, and the files that splits are written to."""

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
    """Sorted positions (int64) of a random sample: so many of each class in `counts`, all of the others.

    Each class has a generator of its own, so its order does not depend on the other classes.

    Args:
        labels: integers, shape (n,).
        counts: how many of a class; of one with fewer all are taken.
        seed: a non-negative integer; samples of one seed are nested in the counts.
    """
    chosen = [np.empty(0, np.int64)]
    for label in np.unique(labels).tolist():
        order = np.random.default_rng((seed, label)).permutation(np.flatnonzero(labels == label))
        chosen.append(order[: counts.get(label, len(order))])
    return np.sort(np.concatenate(chosen))


def stratified_split(labels: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Hold out a fraction of each class, of at least two samples.

    Args:
        labels: integers, shape (n,).
        fraction: in (0, 1); round(fraction · n_c) of the n_c samples of a class are held out, at least one and not all.
        seed: a non-negative integer; splits of one seed are nested in the fraction.

    Returns:
        The positions held out and the rest, each sorted int64; together they are all.

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
    """Write the subsets of several seeds as one table with a row per position, whole or not at all.

    Args:
        subsets: with ``seed``, an array of positions named for each split, and perhaps ``labels`` of all positions.
        splits: names of the splits.
        described: what holds for a whole subset; JSON in the schema's metadata.
        path: parquet file to write: ``seed``, ``split``, ``index``, and ``label`` where the subsets have labels.
        key: of the metadata.
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
    """What :func:`write_splits` wrote, to be unpacked within the block: each subset's description and rows.

    Raises:
        UserError: if the file is missing, is damaged, or does not hold splits.
    """
    with intact(path, "table of subsets"):
        table = pq.read_table(path, page_checksum_verification=True)
        rows = table.to_pandas()
        yield [(entry, rows[rows["seed"] == entry["seed"]]) for entry in json.loads(table.schema.metadata[key])]


def positions_of(rows: pd.DataFrame, splits: Sequence[str]) -> dict[str, Any]:
    """The positions (int64) of each split, from the rows of one subset."""
    return {split: rows.loc[rows["split"] == split, "index"].to_numpy() for split in splits}
