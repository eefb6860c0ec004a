"""Splits that a data set's makers drew, as the subsets that every seed uses."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.pairs.pair_splits import SPLITS, PairSubset, refuse_leakage, write_pair_subsets
from trueneg.errors import UserError
from trueneg.text import privacy

log = logging.getLogger(__name__)


def official_subset(source: PairSource, splits: pd.DataFrame, seed: int) -> PairSubset:
    """The images of each split.

    Args:
        source: images and sentences.
        splits: ``report``, and ``split``: train, validation, test, or anything else for reports that are in none.
        seed: whose subset; it changes nothing of it.

    Raises:
        UserError: if a report of the source is not in the table, a split has no image, or a patient is in two splits.

    Example:
        >>> sentences = pd.DataFrame({"report": list("abc"), "index": 0, "sentence": "Hello.", "class": -1})
        >>> names, nothing = np.array(list("abc")), np.zeros((3, 0))
        >>> black, labels, shown = np.zeros((3, 1, 8, 8), np.uint8), nothing.astype(np.float32), nothing.astype(bool)
        >>> source = PairSource("black", black, names, names, sentences, labels, (), shown)
        >>> splits = pd.DataFrame({"report": list("abc"), "split": ["test", "train", "validation"]})
        >>> official_subset(source, splits, seed=0).train
        array([1])
    """
    split_of = splits.set_index("report")["split"]
    unknown = set(source.reports.tolist()) - set(split_of.index)
    if unknown:
        found = f"{len(unknown):,} reports" + ("" if source.restricted else f", such as {min(unknown)},")
        raise UserError(f"source {source.name}: has {found} that the table of splits lacks; make both from the same files.")
    of_image = split_of.loc[source.reports].to_numpy()
    parts = {name: np.flatnonzero(of_image == name) for name in SPLITS}
    for name, images in parts.items():
        if not len(images):
            raise UserError(f"source {source.name}: no image is in the official {name} split; raise dataset.images, or check it.")
    subset = PairSubset(seed, *(parts[name] for name in SPLITS), source.checksum)
    refuse_leakage(source, subset)
    return subset


def draw_official_subsets(source: str | Path, splits: str | Path, seeds: Sequence[int], path: str | Path) -> None:
    """Write the official splits for each seed, as :func:`trueneg.data.pairs.pair_splits.draw_pair_subsets` writes random ones.

    Args:
        source: images and sentences (npz, with its parquet file beside it).
        splits: parquet file: ``report``, ``split``.
        seeds: whose subsets; all are the same.
        path: parquet file to write.

    Raises:
        UserError: as for :func:`official_subset`, or if a file is missing or damaged.
    """
    pairs, table = read_pairs(source), privacy.read_table(splits)[0]
    subsets = [official_subset(pairs, table, seed) for seed in seeds]
    counts = ", ".join(f"{len(getattr(subsets[0], name)):,} {name}" for name in SPLITS)
    log.info("official splits: %s, %s in none", counts, f"{(~table['split'].isin(SPLITS)).sum():,}")
    write_pair_subsets(subsets, path)
