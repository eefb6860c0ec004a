"""Training, validation and test images of each seed: drawn by patient, or the dataset's official
splits.
"""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.splits import AGAIN, read_splits, write_splits
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.randomness import seed_for

METADATA = b"pair subsets"
SPLITS = ("train", "validation", "test")


@dataclass(frozen=True, eq=False)
class PairSubset:
    """One seed's images as sorted int64 positions in the source; no patient is in two splits.

    Attributes:
        seed: the study's seed.
        train: images to train on.
        validation: images held out for model selection.
        test: images used only once, for the final evaluation.
        source_checksum: checksum of the source that the positions refer to.
    """

    seed: int
    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    source_checksum: str


def split_pairs(
    source: PairSource, seed: int, validation: float = 0.1, test: float = 0.2
) -> PairSubset:
    """Split a source by patient: all images and reports of a patient are in the same split.

    Patients are drawn by name, so the order of the images does not matter.

    Args:
        source: images and sentences.
        seed: the study's seed.
        validation: share of the patients, in (0, 1), rounded to at least one patient.
        test: share of the patients, in (0, 1), rounded to at least one patient.

    Raises:
        UserError: if there are too few patients for the three splits.

    Example:
        >>> sentences = pd.DataFrame(
        ...     {"report": list("abcd"), "index": 0, "sentence": "Hello.", "class": -1}
        ... )
        >>> names = np.array(list("abcd"))
        >>> black, labels, shown = (
        ...     np.zeros((4, 1, 8, 8), np.uint8),
        ...     np.zeros((4, 0), np.float32),
        ...     np.zeros((4, 0), bool),
        ... )
        >>> source = PairSource("black", black, names, names, sentences, labels, (), shown)
        >>> subset = split_pairs(source, seed=0, validation=0.25, test=0.25)
        >>> [len(part) for part in (subset.train, subset.validation, subset.test)]
        [2, 1, 1]
    """
    patients = np.unique(source.patients)
    sizes = [max(1, round(share * len(patients))) for share in (test, validation)]
    if sum(sizes) >= len(patients):
        problem = f"source {source.name} has {counted(len(patients), 'patient')}"
        needed = f"expected more than the {sum(sizes)} needed for validation and test"
        raise UserError(
            f"{problem}; {needed}; add patients, or lower dataset.validation and dataset.test."
        )
    shuffled = np.random.default_rng(seed_for(seed, "pair split")).permutation(patients)
    parts = zip(("test", "validation", "train"), np.split(shuffled, np.cumsum(sizes)), strict=True)
    images = {name: np.flatnonzero(np.isin(source.patients, part)) for name, part in parts}
    return PairSubset(seed, **images, source_checksum=source.checksum)


def official_subset(source: PairSource, splits: pd.DataFrame, seed: int) -> PairSubset:
    """Return the images of each official split.

    Args:
        source: images and sentences.
        splits: table with ``report`` and ``split``: train, validation, test, or any other value for
            unassigned reports.
        seed: seed stored in the subset; it does not affect the images.

    Raises:
        UserError: if a report of the source is not in the table, a split has no image, or a patient
            is in two splits.

    Example:
        >>> sentences = pd.DataFrame(
        ...     {"report": list("abc"), "index": 0, "sentence": "Hello.", "class": -1}
        ... )
        >>> names, nothing = np.array(list("abc")), np.zeros((3, 0))
        >>> black, labels, shown = (
        ...     np.zeros((3, 1, 8, 8), np.uint8),
        ...     nothing.astype(np.float32),
        ...     nothing.astype(bool),
        ... )
        >>> source = PairSource("black", black, names, names, sentences, labels, (), shown)
        >>> splits = pd.DataFrame({"report": list("abc"), "split": ["test", "train", "validation"]})
        >>> official_subset(source, splits, seed=0).train
        array([1])
    """
    split_of = splits.set_index("report")["split"]
    unknown = set(source.reports.tolist()) - set(split_of.index)
    if unknown:
        example = "" if source.restricted else f", such as {min(unknown)},"
        problem = f"{len(unknown):,} reports{example} are missing from the table of splits"
        raise UserError(f"source {source.name}: {problem}; make both from the same files.")
    of_image = split_of.loc[source.reports.tolist()].to_numpy()
    parts = {name: np.flatnonzero(of_image == name) for name in SPLITS}
    for name, images in parts.items():
        if not len(images):
            raise UserError(
                f"source {source.name}: no image is in the official {name} split; raise"
                " dataset.images."
            )
    subset = PairSubset(seed, **parts, source_checksum=source.checksum)
    refuse_leakage(source, subset)
    return subset


def pair_subset(
    source: PairSource,
    settings: Mapping[str, Any],
    seed: int,
    official: pd.DataFrame | None = None,
) -> PairSubset:
    """Return a seed's subset: the official splits, or, if their table is empty, one drawn with the
    data set's settings.
    """
    if official is None or official.empty:
        return split_pairs(source, seed, settings["validation"], settings["test"])
    return official_subset(source, official, seed)


def refuse_leakage(source: PairSource, subset: PairSubset) -> None:
    """Check that a subset belongs to the source and that no patient or report is in two splits.

    Raises:
        UserError: if either check fails; the message describes the violation.
    """
    if subset.source_checksum != source.checksum:
        other = f"a different version of source {source.name}"
        raise UserError(f"the subset of seed {subset.seed} was drawn from {other}; {AGAIN}.")
    for what, owners in (("patients", source.patients), ("reports", source.reports)):
        for first, second in itertools.combinations(SPLITS, 2):
            shared = np.intersect1d(owners[getattr(subset, first)], owners[getattr(subset, second)])
            if len(shared):
                example = "" if source.restricted else f", such as {shared[0]},"
                problem = f"{len(shared)} {what}{example} in both {first} and {second}"
                raise UserError(
                    f"the subset of seed {subset.seed} has {problem}; expected none; {AGAIN}."
                )


# One parquet file contains the subsets of all seeds.
write_pair_subsets = functools.partial(write_splits, key=METADATA)
read_pair_subsets = functools.partial(read_splits, kind=PairSubset, key=METADATA)
