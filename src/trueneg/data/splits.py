"""Seeded stratified splits and samples, and the files that store them."""

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trueneg.data.mistakes import REMOVE
from trueneg.io.files import atomic_write
from trueneg.io.reading import RUN_STEP, reading

Kind = TypeVar("Kind")
AGAIN = "draw it again: snakemake --forcerun subsets"


def first_of_each_class(labels: np.ndarray, counts: Mapping[int, int], seed: int) -> np.ndarray:
    """Sample `counts[c]` items of each class c in `counts`, and all items of the other classes;
    return sorted int64 positions.

    Each class has its own RNG, so its order does not depend on the other classes.

    Args:
        labels: integers, shape (n,).
        counts: sample size per class; smaller classes are taken in full.
        seed: a non-negative integer; for the same seed, a sample with smaller counts is a subset of
            one with larger counts.
    """
    chosen = [np.empty(0, np.int64)]
    for label in np.unique(labels).tolist():
        order = np.random.default_rng((seed, label)).permutation(np.flatnonzero(labels == label))
        chosen.append(order[: counts.get(label, len(order))])
    return np.sort(np.concatenate(chosen))


def stratified_split(
    labels: np.ndarray, fraction: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Hold out a fraction of each class; every class needs at least two samples, or one if nothing
    is held out.

    Args:
        labels: integers, shape (n,).
        fraction: in [0, 1); round(fraction · n_c) of the n_c samples of a class are held out, at
            least one but not all; 0: none.
        seed: a non-negative integer; for the same seed, the samples of a smaller fraction are among
            those of a larger one.

    Returns:
        The held-out positions and the remaining positions, as sorted int64 arrays that together
            cover all samples.

    Example:
        >>> held_out, rest = stratified_split(np.array([0, 0, 0, 0, 1, 1]), 0.25, seed=1)
        >>> len(held_out), len(rest)
        (2, 4)
    """
    sizes = dict(
        zip(*(array.tolist() for array in np.unique(labels, return_counts=True)), strict=True)
    )
    counts = {
        label: min(max(round(fraction * size), 1), size - 1) if fraction else 0
        for label, size in sizes.items()
    }
    held_out = first_of_each_class(labels, counts, seed)
    return held_out, np.setdiff1d(np.arange(len(labels)), held_out, assume_unique=True)


def write_splits(
    subsets: Sequence[Any], path: str | Path, key: bytes, optional: Collection[str] = ()
) -> None:
    """Write the subsets of several seeds atomically as one table with one row per position.

    Args:
        subsets: dataclass instances with an attribute ``seed``. Each array holds the positions of
            the split it is named after; the other attributes are stored as JSON in the schema's
            metadata.
        path: parquet file to write, with columns ``seed``, ``split``, ``index``.
        key: key of the metadata entry.
        optional: splits that may be empty.

    Raises:
        ValueError: if another split is empty.
    """
    rows, described = [], []
    for subset in subsets:
        positions = {
            name: value for name, value in vars(subset).items() if isinstance(value, np.ndarray)
        }
        empty = [
            split for split, index in positions.items() if not len(index) and split not in optional
        ]
        if empty:
            raise ValueError(
                f"the subset of seed {subset.seed} has no positions in {', '.join(empty)}; expected"
                " at least one"
            )
        rows += [
            pd.DataFrame({"seed": subset.seed, "split": split, "index": index})
            for split, index in positions.items()
        ]
        described.append(
            {name: value for name, value in vars(subset).items() if name not in positions}
        )
    table = pa.Table.from_pandas(pd.concat(rows), preserve_index=False).replace_schema_metadata(
        {key: json.dumps(described)}
    )
    with atomic_write(path) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def read_splits(
    path: str | Path, kind: type[Kind], key: bytes, optional: Collection[str] = ()
) -> dict[int, Kind]:
    """Read the subsets written by :func:`write_splits`, keyed by seed.

    Args:
        path: parquet file.
        kind: class of the subsets. Lists are read as tuples, because JSON has no tuples.
        key: key of the metadata entry.
        optional: splits that are empty if the table contains none of their positions.

    Raises:
        UserError: if the file is missing, is damaged, or does not contain such subsets.
    """
    subsets = {}
    with reading(path, "a table of subsets", REMOVE, missing=RUN_STEP):
        table = pq.read_table(path, page_checksum_verification=True)
        positions = table.to_pandas().groupby(["seed", "split"])["index"]
        for described in json.loads(table.schema.metadata[key]):
            seed = described["seed"]
            values = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in described.items()
            }
            values |= dict.fromkeys(optional, np.empty(0, np.int64))
            values |= {
                split: index.to_numpy() for (of_seed, split), index in positions if of_seed == seed
            }
            fields = dataclasses.fields(kind)  # type: ignore[arg-type]  # typing has no name for "a dataclass"
            subsets[seed] = kind(**{field.name: values[field.name] for field in fields})
    return subsets
