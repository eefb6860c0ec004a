"""Which images and reports a seed trains, validates and tests on, by patient."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from trueneg.data.pairs.pair_source import PairSource, read_pairs
from trueneg.data.splits import readable_splits, write_splits
from trueneg.errors import UserError
from trueneg.randomness import seed_for

log = logging.getLogger(__name__)

METADATA = b"pair subsets"
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class PairSubset:
    """The images of one seed; sorted int64 positions in the source, no patient in two of them.

    Attributes:
        seed: the study's seed.
        train: to learn from.
        validation: held out for choices.
        test: read once, at the end.
        source_checksum: of the source that the positions belong to.
    """

    seed: int
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    source_checksum: str


def split_pairs(source: PairSource, seed: int, validation: float = 0.1, test: float = 0.2) -> PairSubset:
    """Split by patient: all images and reports of one lie in one part.

    The order of the images does not matter: patients are drawn by name.

    Args:
        source: images and sentences.
        seed: the study's seed.
        validation: share of the patients, in (0, 1); at least one.
        test: likewise.

    Raises:
        ValueError: if a share is outside (0, 1), or both leave nothing.
        UserError: if there are too few patients for the three parts.

    Example:
        >>> import pandas as pd
        >>> sentences = pd.DataFrame({"report": list("abcd"), "index": 0, "sentence": "Hello.", "class": -1})
        >>> names = np.array(list("abcd"))
        >>> black, labels, shown = np.zeros((4, 1, 8, 8), np.uint8), np.zeros((4, 0), np.float32), np.zeros((4, 0), bool)
        >>> source = PairSource("black", black, names, names, sentences, labels, (), shown)
        >>> subset = split_pairs(source, seed=0, validation=0.25, test=0.25)
        >>> [len(part) for part in (subset.train, subset.validation, subset.test)]
        [2, 1, 1]
    """
    if not (0 < validation < 1 and 0 < test < 1 and validation + test < 1):
        raise ValueError(f"validation is {validation} and test {test}, expected shares in (0, 1) that sum to less than 1")
    patients = np.unique(source.patients)
    sizes = [max(1, round(share * len(patients))) for share in (test, validation)]
    if sum(sizes) >= len(patients):
        raise UserError(
            f"source {source.name}: has {len(patients)} patients, expected more than the {sum(sizes)} that validation and test "
            "take; add patients, or lower dataset.validation and dataset.test."
        )
    shuffled = np.random.default_rng(seed_for(seed, "pair split")).permutation(patients)
    held_out, chosen, rest = np.split(shuffled, np.cumsum(sizes))
    test_images, validation_images, train_images = (
        np.flatnonzero(np.isin(source.patients, part)) for part in (held_out, chosen, rest)
    )
    return PairSubset(seed, train_images, validation_images, test_images, source.checksum)


def refuse_leakage(source: PairSource, subset: PairSubset) -> None:
    """Refuse a subset that is of another source, or has a patient or a report in two parts.

    Raises:
        UserError: naming what is wrong.
    """
    if subset.source_checksum != source.checksum:
        raise UserError(f"the subset of seed {subset.seed} belongs to another source than {source.name}; have it drawn again.")
    parts = {name: getattr(subset, name) for name in SPLITS}
    for what, owners in (("patient", source.patients), ("report", source.reports)):
        for first, second in (("train", "validation"), ("train", "test"), ("validation", "test")):
            shared = np.intersect1d(owners[parts[first]], owners[parts[second]])
            if len(shared):
                found = f"{len(shared)} {what}s" if source.restricted else f"{len(shared)} {what}s, such as {shared[0]},"
                raise UserError(
                    f"the subset of seed {subset.seed} has {found} in {first} and {second}, expected none; have it drawn again."
                )


def write_pair_subsets(subsets: Sequence[PairSubset], path: str | Path) -> None:
    """Write subsets of different seeds as one parquet file, whole or not at all: seed, split, index."""
    rows = [(subset.seed, name, getattr(subset, name)) for subset in subsets for name in SPLITS]
    table = pa.table(
        {
            "seed": np.concatenate([np.full(len(indices), seed, np.int64) for seed, _, indices in rows]),
            "split": np.concatenate([np.full(len(indices), name) for _, name, indices in rows]),
            "index": np.concatenate([indices for _, _, indices in rows]),
        }
    )
    described = [{"seed": subset.seed, "source_checksum": subset.source_checksum} for subset in subsets]
    write_splits(table, described, path, METADATA)


def read_pair_subsets(path: str | Path) -> dict[int, PairSubset]:
    """Read what :func:`write_pair_subsets` wrote: each seed's subset.

    Raises:
        UserError: if the file is missing, is damaged, or does not hold such subsets.
    """
    with readable_splits(path, METADATA) as (table, described):
        seeds, splits, indices = (table.column(name).to_numpy(zero_copy_only=False) for name in ("seed", "split", "index"))
        return {
            entry["seed"]: PairSubset(
                entry["seed"],
                *(indices[(seeds == entry["seed"]) & (splits == name)] for name in SPLITS),
                entry["source_checksum"],
            )
            for entry in described
        }


def draw_pair_subsets(source: str | Path, settings: Mapping[str, Any], seeds: Sequence[int], path: str | Path) -> None:
    """Split the images by patient, for each seed.

    Args:
        source: images and sentences (npz, with its parquet file beside it).
        settings: ``validation``, ``test``: shares of the patients.
        seeds: whose splits.
        path: parquet file to write.

    Raises:
        UserError: if the source is missing or damaged, or has too few patients.
    """
    pairs = read_pairs(source)
    subsets = [split_pairs(pairs, seed, settings["validation"], settings["test"]) for seed in seeds]
    for subset in subsets:
        log.info("seed %d: %d training images", subset.seed, len(subset.train))
    write_pair_subsets(subsets, path)
