"""Accuracy overall, by class, and by the groups of rare and of common classes."""

from collections.abc import Collection, Sequence

import numpy as np


def accuracies(
    predictions: np.ndarray, labels: np.ndarray, class_names: Sequence[str], rare_classes: Collection[int]
) -> dict[str, float]:
    """Every accuracy of one classifier on one split.

    ``"accuracy"`` is the share of correct predictions. ``"accuracy rare"`` and ``"accuracy common"`` are
    means of the per-class accuracies of their group, so that they do not depend on the class frequencies of
    the split (on a balanced test split the two kinds of mean agree). ``"accuracy <class name>"`` is the share
    of that class's images that were recognised. Classes without an image in ``labels`` have no accuracy and
    do not count in their group; a group without images has no entry.

    Args:
        predictions: integers, shape (n,).
        labels: integers in 0 … len(class_names) − 1, shape (n,), n ≥ 1.
        class_names: one a class.
        rare_classes: the rare ones, as integers; all others are common.

    Returns:
        Metric name → value in [0, 1], in the order: overall, groups, classes.

    Raises:
        ValueError: if shapes do not agree, there are no labels, a label or rare class is no class, or two
            metrics would have the same name.

    Example:
        >>> accuracies(np.array([0, 1]), np.array([0, 0]), ["cat", "dog"], rare_classes=[1])
        {'accuracy': 0.5, 'accuracy common': 0.5, 'accuracy cat': 0.5}
    """
    predictions, labels = np.asarray(predictions), np.asarray(labels)
    if predictions.shape != labels.shape or labels.ndim != 1 or not len(labels):
        raise ValueError(
            f"predictions have shape {predictions.shape} and labels {labels.shape}, expected both (n,) with n of at least 1"
        )
    strangers = sorted({*np.unique(labels).tolist(), *rare_classes} - set(range(len(class_names))))
    if strangers:
        raise ValueError(f"labels or rare_classes hold {strangers}, expected 0 to {len(class_names) - 1}")
    names = ["rare", "common", *class_names]
    if len(set(names)) < len(names):
        raise ValueError(f"class_names are {list(class_names)}, expected distinct names, none 'rare' or 'common'")
    by_class = {label: float((predictions[labels == label] == label).mean()) for label in np.unique(labels).tolist()}
    groups = {
        "rare": [value for label, value in by_class.items() if label in rare_classes],
        "common": [value for label, value in by_class.items() if label not in rare_classes],
    }
    return {
        "accuracy": float((predictions == labels).mean()),
        **{f"accuracy {group}": float(np.mean(values)) for group, values in groups.items() if values},
        **{f"accuracy {class_names[label]}": value for label, value in by_class.items()},
    }
