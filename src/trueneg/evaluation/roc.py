"""Area under the ROC curve for labels that may be unknown."""

from collections.abc import Sequence

import numpy as np
from numpy import ndarray
from scipy.stats import rankdata

from trueneg.evaluation.retrieval import as_array


def area_under_roc(scores, labels) -> float:
    r"""Return the probability that a positive scores higher than a negative; ties count one half.

    .. math:: \frac{1}{n_+ n_-} \sum_{i \in +} \sum_{j \in -} [s_i > s_j] + \tfrac{1}{2} [s_i = s_j]

    Args:
        scores: (n,) scores.
        labels: (n,) with values 1, 0 or NaN (unknown); samples with unknown labels are ignored.

    Returns:
        AUC in [0, 1]; NaN if there is no positive or no negative sample.

    Raises:
        ValueError: if a score is NaN.

    Example:
        >>> area_under_roc([0.1, 0.4, 0.4, 0.8], [0, 0, 1, 1])
        0.875
    """
    scores = as_array(scores)
    labels = as_array(labels).astype(np.float64)
    if np.isnan(scores).any():
        raise ValueError(f"{np.isnan(scores).sum()} of {len(scores)} scores are NaN")
    is_known = ~np.isnan(labels)
    scores = scores[is_known]
    positive = labels[is_known] == 1
    positives = np.count_nonzero(positive)
    negatives = np.count_nonzero(~positive)
    if not positives or not negatives:
        return float("nan")
    # Mann–Whitney: the sum of the positives' ranks minus their rank sum among themselves.
    return float(
        (rankdata(scores)[positive].sum() - positives * (positives + 1) / 2)
        / (positives * negatives)
    )


def areas_by_class(scores, labels: ndarray, class_names: Sequence[str]) -> dict[str, float]:
    """Return the area under the ROC curve of each of K classes and, if K > 0, ``"mean"``; scores
    and labels are (n, K).
    """
    columns = zip(class_names, as_array(scores).T, labels.T, strict=True)
    areas = {
        name: area_under_roc(class_scores, class_labels)
        for name, class_scores, class_labels in columns
    }
    return areas | {"mean": float(np.mean(list(areas.values())))} if areas else {}
