"""Training, validation and test images of each seed: drawn by patient, or the dataset's official
splits.
"""

import dataclasses

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import Series

from trueneg.data.leakage import without_leaks
from trueneg.data.pairs.pair_source import PairSource
from trueneg.data.samples import SPLITS, Subset
from trueneg.data.splits import connected_groups, drawn_splits
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.randomness import seed_for
from trueneg.specs.sections import Section


def pair_subset(
    source: PairSource,
    settings: Section,
    seed: int,
    official: pd.DataFrame | None = None,
) -> Subset:
    """Return a seed's subset: the official splits, or, if their table is empty, one drawn with the
    data set's settings.
    """
    if official is None or official.empty:
        return split_pairs(source, seed, settings["validation"], settings["test"])
    return official_subset(source, official, seed, settings.get("leakage"))


def split_pairs(
    source: PairSource, seed: int, validation: float = 0.1, test: float = 0.2
) -> Subset:
    """Split a source by patient: all images and reports of a patient are in the same split, as are
    patients with an equal image.

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
        >>> images, labels, shown = (
        ...     np.arange(4, dtype=np.uint8).reshape(4, 1, 1, 1),
        ...     np.zeros((4, 0), np.float32),
        ...     np.zeros((4, 0), bool),
        ... )
        >>> source = PairSource("grey", images, names, names, sentences, labels, (), shown)
        >>> subset = split_pairs(source, seed=0, validation=0.25, test=0.25)
        >>> [len(part) for part in (subset.train, subset.validation, subset.test)]
        [2, 1, 1]
    """
    groups = source.samples.groups
    names, patient_of = np.unique(source.patients, return_inverse=True)
    owners = np.stack([patient_of, len(names) + groups["images"]], axis=1)
    # named after the first of the patients
    first = Series(patient_of).groupby(connected_groups(owners)).transform("min")
    patients, patient_of = np.unique(first, return_inverse=True)
    shares = {"test": test, "validation": validation}
    needed = sum(max(1, round(share * len(patients))) for share in shares.values())
    if needed >= len(patients):
        raise UserError(
            f"source {source.name} has {counted(len(patients), 'patient')}; expected more than the"
            f" {needed} needed for validation and test; add patients, or lower dataset.validation"
            " and dataset.test."
        )
    drawn = np.random.default_rng(seed_for(seed, "pair split")).permutation(len(patients))
    split = drawn_splits(np.argsort(drawn), shares)
    return _subset(source, split[patient_of], seed)


def official_subset(
    source: PairSource, splits: pd.DataFrame, seed: int, leakage: str | None = None
) -> Subset:
    """Return the images of each official split.

    Args:
        source: images and sentences.
        splits: table with ``report`` and ``split``: train, validation, test, or any other value for
            unassigned reports.
        seed: seed stored in the subset; it does not affect the images.
        leakage: the setting ``dataset.leakage``.

    Raises:
        UserError: if a report of the source is not in the table, a split has no image, or two
            splits share patients, reports or images, and `leakage` is None.
    """
    split_of = splits.set_index("report")["split"]
    unknown = set(source.reports.tolist()) - set(split_of.index)
    if unknown:
        example = "" if source.restricted else f", such as {min(unknown)},"
        raise UserError(
            f"source {source.name}: {len(unknown):,} reports{example} are missing from the table of"
            " splits; make both from the same files."
        )
    split = split_of.loc[source.reports.tolist()].to_numpy()
    split, shared = without_leaks(dataclasses.replace(source.samples, split=split), leakage)
    subset = dataclasses.replace(
        _subset(source, split, seed), leakage=shared, allowed=leakage == "allow"
    )
    for name in SPLITS:
        if not len(getattr(subset, name)):
            raise UserError(
                f"source {source.name}: no image is in the official {name} split; raise"
                " dataset.images."
            )
    return subset


def _subset(source: PairSource, split: ndarray, seed: int) -> Subset:
    return Subset(
        seed,
        source.checksum,
        train=np.flatnonzero(split == "train"),
        test=np.flatnonzero(split == "test"),
        validation=np.flatnonzero(split == "validation"),
    )
