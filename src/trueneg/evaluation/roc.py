"""Areas under the ROC curve, of labels that may be unknown."""

from collections.abc import Sequence

import numpy as np
from scipy.stats import rankdata

from trueneg.evaluation.retrieval import as_array


def known_labels(labels) -> np.ndarray:
    """Labels as 1, 0 and NaN: uncertain (−1) and missing ones are unknown, never negative.

    Args:
        labels: any shape, of 1, 0, −1 and NaN, as CheXpert's.

    Returns:
        float64, the same shape.

    Raises:
        ValueError: if a label is something else.

    Example:
        >>> known_labels([1, 0, -1]).tolist()
        [1.0, 0.0, nan]
    """
    labels = as_array(labels).astype(np.float64)
    known = np.where(labels == -1, np.nan, labels)
    strangers = known[~np.isnan(known) & ~np.isin(known, [0, 1])]
    if len(strangers):
        raise ValueError(f"a label is {strangers[0]:g}, expected 1, 0, -1 (uncertain) or NaN (missing)")
    return known


def area_under_roc(scores, labels) -> float:
    r"""The probability that a positive scores higher than a negative, ties counting one half.

    .. math:: \frac{1}{n_+ n_-} \sum_{i \in +} \sum_{j \in -} [s_i > s_j] + \tfrac{1}{2} [s_i = s_j]

    Args:
        scores: (n,) numbers.
        labels: (n,) of 1 and 0; samples of NaN or −1 are left out.

    Returns:
        In [0, 1]; NaN if there is no positive or no negative.

    Raises:
        ValueError: if shapes differ, a label is none, or a score is NaN.

    Example:
        >>> area_under_roc([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1])
        0.875
    """
    scores, labels = as_array(scores), known_labels(labels)
    if scores.ndim != 1 or scores.shape != labels.shape or np.isnan(scores).any():
        raise ValueError(f"scores {scores.shape} and labels {labels.shape}, expected both (n,), and no score NaN")
    known = ~np.isnan(labels)
    scores, positive = scores[known], labels[known] == 1
    positives = np.count_nonzero(positive)
    negatives = len(positive) - positives
    if not positives or not negatives:
        return float("nan")
    # Mann-Whitney: the ranks of the positives, less what they would be among themselves.
    return float((rankdata(scores)[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def areas_by_class(scores, labels, class_names: Sequence[str]) -> dict[str, float]:
    """The area under the ROC curve of every class: of (n, K) scores and labels (1, 0, −1 and NaN), by the K names."""
    columns = zip(class_names, as_array(scores).T, known_labels(labels).T, strict=True)
    return {name: area_under_roc(own_scores, own_labels) for name, own_scores, own_labels in columns}
