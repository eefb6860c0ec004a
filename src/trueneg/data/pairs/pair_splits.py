"""Training, validation and test images of each seed: drawn by patient, or the dataset's official
splits.
"""

import dataclasses
from collections.abc import Mapping

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
    data set's settings. With a ``test`` of 0, all images are for training.
    """
    if settings.get("test") == 0:
        return _subset(source, np.full(len(source.images), "train"), seed)
    if official is None or official.empty:
        return split_pairs(source, seed, settings["validation"], settings["test"])
    return official_subset(
        source, official, seed, settings.get("leakage"), settings.get("validation")
    )


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
    owners = _owners(source)
    patients = np.unique(owners)
    shares = {"test": test, "validation": validation}
    needed = sum(max(1, round(share * len(patients))) for share in shares.values())
    if needed >= len(patients):
        raise UserError(
            f"source {source.name} has {counted(len(patients), 'patient')}; expected more than the"
            f" {needed} needed for validation and test; add patients, or lower dataset.validation"
            " and dataset.test."
        )
    return _subset(source, _drawn_by_patient(owners, shares, seed), seed)


def official_subset(
    source: PairSource,
    splits: pd.DataFrame,
    seed: int,
    leakage: str | None = None,
    validation: float | None = None,
) -> Subset:
    """Return the images of each official split; without validation images, some of those for
    training are drawn for it.

    Args:
        source: images and sentences.
        splits: table with ``report`` and ``split``: train, validation, test, or any other value for
            unassigned reports.
        seed: the study's seed, which only affects images that are drawn.
        leakage: the setting ``dataset.leakage``.
        validation: share of the training patients to draw for validation; None: none are drawn.

    Raises:
        UserError: if a split has no image, or two splits share patients, reports or images, and
            `leakage` is None.
    """
    split_of = splits.set_index("report")["split"]
    split = split_of.loc[source.reports.tolist()].to_numpy(object)
    split, shared = without_leaks(dataclasses.replace(source.samples, split=split), leakage)
    if validation and "validation" not in split:
        free = np.flatnonzero(split == "train")
        split = split.copy()
        split[free] = _drawn_by_patient(_owners(source)[free], {"validation": validation}, seed)
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


def _owners(source: PairSource) -> ndarray:
    """Return the number of each image's patient, by name; patients with an equal image have that of
    the first.
    """
    patient_of = np.unique(source.patients, return_inverse=True)[1]
    groups = connected_groups(patient_of, source.samples.groups["images"])
    return Series(patient_of).groupby(groups).transform("min").to_numpy()


def _drawn_by_patient(patients: ndarray, shares: Mapping[str, float], seed: int) -> ndarray:
    """Draw the split of each image by the name of its patient."""
    names, patient_of = np.unique(patients, return_inverse=True)
    drawn = np.random.default_rng(seed_for(seed, "pair split")).permutation(len(names))
    return drawn_splits(np.argsort(drawn), shares)[patient_of]


def _subset(source: PairSource, split: ndarray, seed: int) -> Subset:
    return Subset(
        seed,
        source.checksum,
        train=np.flatnonzero(split == "train"),
        test=np.flatnonzero(split == "test"),
        validation=np.flatnonzero(split == "validation"),
    )
