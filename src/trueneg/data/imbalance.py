"""CIFAR10-r: rare classes keep a fraction r of their training images; the other classes keep
all.
"""

from collections.abc import Iterable

import numpy as np
from numpy import ndarray

from trueneg.data.splits import order_in_class, with_rare_classes
from trueneg.randomness import seed_for


def imbalanced_indices(
    labels: ndarray, fraction: float, rare_classes: Iterable[int], seed: int
) -> ndarray:
    """Return the positions of the images kept when the rare classes are subsampled.

    Sample-Specific Debiasing (2023), section 3.1. For one seed the subsets are nested: the images
    kept at r = 0.1 are among those kept at r = 0.5, so different values of r are compared using
    common random numbers.

    Args:
        labels: integers, shape (n,).
        fraction: r, in (0, 1]; a rare class with n_c images keeps round(r · n_c) of them, but at
            least one.
        rare_classes: labels of the rare classes.
        seed: the study's seed.

    Returns:
        Sorted int64 positions.

    Raises:
        ValueError: if the fraction is outside (0, 1], or a rare class has no image.

    Example:
        >>> labels = np.repeat([0, 1], 10)
        >>> kept = imbalanced_indices(labels, 0.3, rare_classes=[1], seed=0)
        >>> np.bincount(labels[kept]).tolist()
        [10, 3]
    """
    labels = np.asarray(labels)
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction is {fraction}; expected a number above 0 and at most 1")
    rare = list(rare_classes)
    if unknown := [label for label in rare if label not in labels]:
        raise ValueError(
            f"rare class {unknown[0]} has no image; the labels are {np.unique(labels).tolist()}"
        )
    order = order_in_class(labels, seed_for(seed, "subset"))
    return with_rare_classes(labels, rare, fraction, order, least=1)


def class_probabilities(fraction: float, classes: int = 10, rare: int = 5) -> tuple[float, float]:
    r"""Return the probability of a rare class and that of a common class.

    .. math:: \eta_{low} = \frac{r}{K - R + R r}, \qquad \eta_{high} = \frac{1}{K - R + R r}

    Sample-Specific Debiasing (2023), section 3.1, where K = 10 and R = 5: 0.2r/(1+r) and 0.2/(1+r).
    Assumes that all classes have the same size before subsampling.

    Args:
        fraction: r, in (0, 1].
        classes: K, the number of classes.
        rare: R, the number of rare classes.

    Returns:
        (eta_low, eta_high)

    Raises:
        ValueError: if the fraction is outside (0, 1], or all classes are rare.

    Example:
        >>> low, high = class_probabilities(0.1)
        >>> round(low, 4), round(high, 4)
        (0.0182, 0.1818)
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction is {fraction}; expected a number above 0 and at most 1")
    if not 0 <= rare < classes:
        raise ValueError(
            f"{rare} of {classes} classes are rare; expected at least one common class"
        )
    common_class = 1 / (classes - rare + rare * fraction)
    return fraction * common_class, common_class
