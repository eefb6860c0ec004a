"""Accuracy overall, balanced, per class, and for the groups of rare and common classes."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy import ndarray


def accuracies(
    predictions: ndarray,
    labels: ndarray,
    class_names: Sequence[str],
    rare_classes: Collection[int],
) -> dict[str | None, float]:
    """Compute all accuracies of one classifier on one split.

    The overall accuracy is the share of correct predictions. The accuracy of a class is the share
    of its images that are classified correctly. The balanced accuracy (``"macro"``) is the mean
    over classes, and that of ``"rare"`` and ``"common"`` classes the mean over the group, so these
    do not depend on the class frequencies of the split (on a balanced test split the two kinds of
    mean agree). Classes without an image in ``labels`` have no accuracy and are excluded from their
    group; a group without images has no entry.

    Args:
        predictions: integers, shape (n,).
        labels: integers in 0 … len(class_names) − 1, shape (n,), n ≥ 1.
        class_names: one name per class, other than those of the groups.
        rare_classes: integer labels of the rare classes; all others are common.

    Returns:
        Group → value in [0, 1], in this order: all images (None), ``"rare"``, ``"common"``,
            ``"macro"``, classes.

    Example:
        >>> accuracies(np.array([0, 1]), np.array([0, 0]), ["cat", "dog"], rare_classes=[1])
        {None: 0.5, 'common': 0.5, 'macro': 0.5, 'cat': 0.5}
    """
    by_class = {
        label: float((predictions[labels == label] == label).mean())
        for label in np.unique(labels).tolist()
    }
    groups = {
        "rare": [value for label, value in by_class.items() if label in rare_classes],
        "common": [value for label, value in by_class.items() if label not in rare_classes],
        "macro": list(by_class.values()),
    }
    return {
        None: float((predictions == labels).mean()),
        **{group: float(np.mean(values)) for group, values in groups.items() if values},
        **{class_names[label]: value for label, value in by_class.items()},
    }
