"""Training, validation and test indices of each seed, stored in a small table that all objectives
share.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.labels import refuse_ambiguous
from trueneg.data.imbalance import class_probabilities, imbalanced_indices
from trueneg.data.splits import first_of_each_class, read_splits, stratified_split, write_splits
from trueneg.errors import UserError
from trueneg.randomness import seed_for
from trueneg.specs.sources import OWN
from trueneg.specs.tasks.base import GROUPS

METADATA = b"subsets"
SPLITS = ("pool", "train", "validation", "test")
# dataset settings passed to make_subset
DRAWING = ("fraction", "rare_classes", "images_per_class", "validation", "test")
TEST_FRACTION = 0.25  # share of the images to hold out if a source has no official test split


@dataclass(frozen=True, eq=False)
class Subset:
    """The splits of one seed; indices are sorted int64 positions in the source.

    Attributes:
        seed: the study's seed.
        train: the labelled training images that remain after imbalance is applied, and all
            unlabelled images.
        pool: all labelled training images (neither validation nor test) before imbalance is
            applied.
        validation: images held out for model selection; may be empty.
        test: images used only once, for the final evaluation.
        rare_classes: labels of the subsampled classes.
        eta_low, eta_high: class probabilities of a rare and of a common class
            (:func:`class_probabilities`).
        source_checksum: checksum of the source that the indices refer to.
    """

    seed: int
    train: np.ndarray
    pool: np.ndarray
    validation: np.ndarray
    test: np.ndarray
    rare_classes: tuple[int, ...]
    eta_low: float
    eta_high: float
    source_checksum: str


def image_subset(
    source: ImageSource, settings: Mapping[str, Any], seed: int, official: None = None
) -> Subset:
    """Draw the subset of one seed with a data set's settings; the source has its official splits.

    Raises:
        UserError: if the settings do not fit the source, or a class has the name of a group of
            classes.
    """
    if reserved := [name for name in source.class_names if name in GROUPS]:
        expected = (
            f"expected other names than {', '.join(GROUPS)}, which are those of groups of classes"
        )
        raise UserError(
            f"{settings.get('path')} has a class named {reserved[0]}; {expected}; rename it."
        )
    refuse_ambiguous(settings["rare_classes"], source.class_names)
    if settings["source"] in OWN and settings["test"] is None and not source.is_test.any():
        problem = f"{settings['path']} has no test images, and dataset.test is not set"
        raise UserError(
            f"{problem}; set dataset.test to the share of the images to hold out, such as 0.25."
        )
    return make_subset(source, seed=seed, **{key: settings[key] for key in DRAWING})


def make_subset(
    source: ImageSource,
    *,
    seed: int,
    fraction: float = 1.0,
    rare_classes: Sequence[int | str] = (),
    images_per_class: int | None = None,
    validation: float = 0.1,
    test: float | None = None,
) -> Subset:
    """Draw the splits of one seed: hold out test, then validation images, stratified by class; then
    apply the cap and imbalance.

    Each step has its own RNG, and subsets of different fractions are nested. Unlabelled images are
    used only for training. A source's own validation split is used as it is, for every seed.

    Args:
        source: the images.
        seed: the study's seed.
        fraction: r in (0, 1], the share of a rare class's images to keep.
        rare_classes: labels or names of the classes to subsample.
        images_per_class: maximum number m of training images per class before imbalance is applied;
            also limits the pool. A common class then has m training images, and a rare class
            round(fraction · m). None: no maximum.
        validation: share of the training images to hold out, in [0, 1); 0: none. Not used if the
            source has a validation split.
        test: share of all images to hold out, in (0, 1); None: the official test images, or a
            quarter of all images if there is no official test split.

    Raises:
        UserError: if a class is unknown or too small to split, all classes are rare, `test` is
            given for a source that has an official test split, or `validation` is 0 for one that
            has a validation split.
    """
    rare = _class_numbers(source, rare_classes)
    official, labels = bool(source.is_test.any()), source.labels
    if official and test is not None:
        raise UserError(
            f"dataset.test is {test}, but source {source.name} has an official test split; remove"
            " dataset.test."
        )
    own = np.flatnonzero(source.is_validation)
    if len(own) and not validation:
        problem = f"dataset.validation is 0, but source {source.name} has a validation split"
        raise UserError(
            f"{problem}; remove dataset.validation to use it, or move its images to train."
        )
    validation = 0 if len(own) else validation
    _check_class_sizes(source, needed=(1 if official else 2) + (validation > 0))
    labelled, unlabelled = (
        np.flatnonzero((labels >= 0) & ~source.is_validation),
        np.flatnonzero(labels < 0),
    )
    if official:
        held_out, remaining = (
            labelled[source.is_test[labelled]],
            labelled[~source.is_test[labelled]],
        )
    else:
        share = TEST_FRACTION if test is None else test
        held_out, remaining = (
            labelled[part]
            for part in stratified_split(labels[labelled], share, seed_for(seed, "test split"))
        )
    chosen, rest = stratified_split(
        labels[remaining], validation, seed_for(seed, "validation split")
    )
    pool = remaining[rest]
    if images_per_class is not None:
        caps = dict.fromkeys(range(len(source.class_names)), images_per_class)
        pool = pool[first_of_each_class(labels[pool], caps, seed_for(seed, "images per class"))]
    train = np.sort(
        np.concatenate([pool[imbalanced_indices(labels[pool], fraction, rare, seed)], unlabelled])
    )
    eta = class_probabilities(fraction, len(source.class_names), len(rare))
    validation_split = own if len(own) else remaining[chosen]
    return Subset(
        seed, train, pool, validation_split, held_out, rare, *eta, source_checksum=source.checksum
    )


def _class_numbers(source: ImageSource, classes: Iterable[int | str]) -> tuple[int, ...]:
    names = source.class_names
    numbers = {name: number for number, name in enumerate(names)} | {
        number: number for number in range(len(names))
    }
    unknown = [member for member in classes if member not in numbers]
    if unknown:
        expected = (
            f"classes of {source.name}: {', '.join(names)}, or their numbers 0 to {len(names) - 1}"
        )
        raise UserError(
            f"dataset.rare_classes contains {', '.join(map(repr, unknown))}; expected {expected}."
        )
    rare = tuple(sorted({numbers[member] for member in classes}))
    if len(rare) == len(names):
        raise UserError(
            f"dataset.rare_classes contains all classes of {source.name}; expected at least one"
            " common class."
        )
    return rare


def _check_class_sizes(source: ImageSource, needed: int) -> None:
    """Check that each class has at least one image for every split."""
    is_left = ~source.is_test & ~source.is_validation & (source.labels >= 0)
    sizes = np.bincount(source.labels[is_left], minlength=len(source.class_names))
    if sizes.min() < needed:
        problem = (
            f"class {source.class_names[sizes.argmin()]} has {sizes.min()} images outside the"
            " official splits"
        )
        expected = f"at least {needed}, one per split"
        raise UserError(
            f"source {source.name}: {problem}; expected {expected}; add images or remove the class."
        )


# One parquet file contains the subsets of all seeds.
write_subsets = functools.partial(write_splits, key=METADATA, optional=("validation",))
read_subsets = functools.partial(read_splits, kind=Subset, key=METADATA, optional=("validation",))
