"""Training, validation and test images of each seed, with classes that are made rare."""

from collections.abc import Sequence

import numpy as np
from numpy import ndarray

from trueneg.data.images.image_source import ImageSource
from trueneg.data.imbalance import class_probabilities, imbalanced_indices
from trueneg.data.leakage import without_leaks
from trueneg.data.samples import Subset
from trueneg.data.splits import drawn_splits, order_in_class
from trueneg.errors import UserError
from trueneg.randomness import seed_for
from trueneg.specs.sections import Section
from trueneg.specs.sources import OWN
from trueneg.specs.tasks.base import GROUPS

# dataset settings passed to make_subset
DRAWING = ("fraction", "rare_classes", "images_per_class", "validation", "test")
TEST_FRACTION = 0.25  # share of the images to hold out if a source has no official test split


def image_subset(
    source: ImageSource, settings: Section, seed: int, official: None = None
) -> Subset:
    """Draw the subset of one seed with a data set's settings; the source has its official splits.
    With a ``test`` of 0, all images are for training.

    Raises:
        UserError: if the settings do not fit the source, or a class has the name of a group of
            classes.
    """
    if settings["test"] == 0:
        eta = 1 / len(source.class_names)
        everything = np.arange(len(source.labels))
        return Subset(seed, source.checksum, everything, eta_low=eta, eta_high=eta)
    refuse_reserved(settings.get("path"), source.class_names)
    if settings["source"] in OWN and settings["test"] is None and not source.is_test.any():
        raise UserError(
            f"{settings['path']} has no test images, and dataset.test is not set; set dataset.test"
            " to the share of the images to hold out, such as 0.25."
        )
    drawing = {key: settings[key] for key in DRAWING}
    return make_subset(source, seed=seed, leakage=settings.get("leakage"), **drawing)


def refuse_reserved(place: object, class_names: Sequence[str]) -> None:
    """Check that no class of the images in a place has the name of a group of classes.

    Raises:
        UserError: if one has.
    """
    if reserved := [name for name in class_names if name in GROUPS]:
        raise UserError(
            f"{place} has a class named {reserved[0]}; expected other names than"
            f" {', '.join(GROUPS)}, which are those of groups of classes; rename it."
        )


def make_subset(
    source: ImageSource,
    *,
    seed: int,
    fraction: float = 1.0,
    rare_classes: Sequence[int | str] = (),
    images_per_class: int | None = None,
    validation: float = 0.1,
    test: float | None = None,
    leakage: str | None = None,
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
        leakage: what to do with images that official splits share: None (refuse them), ``allow`` or
            ``leave_out``. Drawn splits share none.

    Raises:
        UserError: if a class is unknown, ambiguous or too small to split, all classes are rare,
            `test` is given for a source that has an official test split, `validation` is 0 for one
            that has a validation split, or official splits share images and `leakage` is None.
    """
    rare = _class_numbers(source, rare_classes)
    official, shared = without_leaks(source.samples, leakage)
    split = official.copy()
    if test is not None and "test" in split:
        raise UserError(
            f"dataset.test is {test}, but source {source.name} has an official test split; remove"
            " dataset.test."
        )
    if not validation and "validation" in split:
        raise UserError(
            f"dataset.validation is 0, but source {source.name} has a validation split; remove"
            " dataset.validation to use it, or move its images to train."
        )
    shares = {"test": test or TEST_FRACTION, "validation": validation}
    undrawn = [name for name, share in shares.items() if share and name not in split]
    _refuse_small_classes(source, split == "", needed=len(undrawn) + 1)
    for name in undrawn:
        free = np.flatnonzero(split == "")
        labels = source.labels[free]
        order = order_in_class(labels, seed_for(seed, f"{name} split"))
        split[free] = drawn_splits(
            order,
            {name: shares[name]},
            stratum=labels,
            group=source.samples.groups["images"][free],
            rest="",
        )
    pool = np.flatnonzero(split == "")
    if images_per_class is not None:
        order = order_in_class(source.labels[pool], seed_for(seed, "images per class"))
        pool = pool[order < images_per_class]
    kept = pool[imbalanced_indices(source.labels[pool], fraction, rare, seed)]
    unlabelled = np.flatnonzero(split == "train")
    eta_low, eta_high = class_probabilities(fraction, len(source.class_names), len(rare))
    return Subset(
        seed,
        source.checksum,
        np.union1d(kept, unlabelled),
        test=np.flatnonzero(split == "test"),
        validation=np.flatnonzero(split == "validation"),
        pool=pool,
        rare_classes=rare,
        eta_low=eta_low,
        eta_high=eta_high,
        leakage=shared,
    )


def _class_numbers(source: ImageSource, classes: Sequence[int | str]) -> list[int]:
    """Return the numbers of classes that are given by number or name."""
    names = source.class_names
    numbers: dict[int | str, int] = {}
    for number, name in enumerate(names):
        numbers |= {number: number, name: number}
        if name.isdecimal() and int(name) != number and int(name) in classes:
            raise UserError(
                f"dataset.rare_classes contains {int(name)}, but the class named {name} is number"
                f" {number}, because classes are numbered from 0 in the order of their names."
                " Rename the classes to 0, 1, 2, … or to names with a letter."
            )
    if unknown := [member for member in classes if member not in numbers]:
        raise UserError(
            f"dataset.rare_classes contains {', '.join(map(repr, unknown))}; expected classes of"
            f" {source.name}: {', '.join(names)}, or their numbers 0 to {len(names) - 1}."
        )
    rare = sorted({numbers[member] for member in classes})
    if len(rare) == len(names):
        raise UserError(
            f"dataset.rare_classes contains all classes of {source.name}; expected at least one"
            " common class."
        )
    return rare


def _refuse_small_classes(source: ImageSource, is_left: ndarray, needed: int) -> None:
    """Check that each class has at least one image for every split."""
    sizes = np.bincount(source.labels[is_left], minlength=len(source.class_names))
    if sizes.min() < needed:
        raise UserError(
            f"source {source.name}: class {source.class_names[sizes.argmin()]} has {sizes.min()}"
            f" images outside the official splits; expected at least {needed}, one per split; add"
            " images or remove the class."
        )
