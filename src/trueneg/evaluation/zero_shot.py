"""Zero-shot classification: a class's negative and positive prompt are compared by their scores with an image."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from torch import Tensor
from torch.nn import functional

from trueneg.evaluation.retrieval import as_array


class PromptPair(NamedTuple):
    """The two sentences that stand for a class.

    Attributes:
        negative: tells that the finding is absent.
        positive: tells that it is present.
    """

    negative: str
    positive: str


# Sample-Specific Debiasing (2023), Table 2. The paper's main text writes them with full stops, the table without.
PROMPTS: Mapping[str, PromptPair] = MappingProxyType(
    {
        "pneumonia": PromptPair("No signs of pneumonia", "Findings suggesting pneumonia"),
        "cardiomegaly": PromptPair("Heart size normal", "Cardiomegaly"),
        "edema": PromptPair("No pulmonary edema", "Pulmonary edema"),
        "effusion": PromptPair("No pleural effusions", "Pleural effusions"),
        "pneumothorax": PromptPair("No pneumothorax", "Pneumothorax"),
    }
)


def prompt_ensemble(embeddings: Tensor) -> Tensor:
    r"""One embedding for several prompts of the same meaning: their mean BEFORE normalisation, then of length 1.

    .. math:: \bar z / \|\bar z\|,\quad \bar z = \frac{1}{P} \sum_p z_p

    as BioViL's inference engine does: a longer embedding counts more.

    Args:
        embeddings: (P, D), not normalised.

    Returns:
        (D,).

    Example:
        >>> import torch
        >>> prompt_ensemble(torch.tensor([[3.0, 0.0], [3.0, 8.0]]))
        tensor([0.6000, 0.8000])
    """
    return functional.normalize(embeddings.mean(0), dim=0)


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
    """The area under the ROC curve of every class.

    Args:
        scores: (n, K) numbers, a column a class.
        labels: (n, K) of 1, 0, −1 and NaN.
        class_names: K distinct names.

    Returns:
        Name → area, in the order of the names.

    Raises:
        ValueError: if shapes do not fit, a label is none, a score is NaN, or a class lacks positives or negatives.
    """
    scores, labels = as_array(scores), known_labels(labels)
    names = len(set(class_names))
    if scores.ndim != 2 or scores.shape != labels.shape or not scores.shape[1] == len(class_names) == names:
        raise ValueError(
            f"scores {scores.shape}, labels {labels.shape} and class_names {list(class_names)}, "
            "expected (n, K), (n, K) and K distinct names"
        )
    for name, own in zip(class_names, labels.T, strict=True):
        positives, negatives = np.count_nonzero(own == 1), np.count_nonzero(own == 0)
        if not positives or not negatives:
            raise ValueError(
                f"class {name!r} has {positives} positive and {negatives} negative labels, expected at least one of both; "
                "leave the class out"
            )
    return {name: area_under_roc(s, l) for name, s, l in zip(class_names, scores.T, labels.T, strict=True)}


def zero_shot_metrics(negative_scores, positive_scores, labels, class_names: Sequence[str]) -> dict[str, dict[str, float]]:
    r"""AUC and accuracy of every class, from the scores of an image with the class's two prompts.

    ``"AUC"`` ranks images by :math:`s_+ - s_-`; the softmax over the two prompts orders them alike, whatever the
    logit scale. ``"AUC positive prompt"`` ranks by :math:`s_+` alone, which is another number: Sample-Specific
    Debiasing (2023) does not say which it reports. ``"ACC"`` is the share of images whose higher score is that of
    the right prompt (section 3.2); of equal scores the negative prompt wins.

    Args:
        negative_scores: (n, K) image-sentence scores with each class's negative prompt.
        positive_scores: (n, K) with its positive prompt.
        labels: (n, K) of 1, 0, −1 (uncertain) and NaN (missing); the last two are left out, class by class.
        class_names: K distinct names, none ``"mean"``.

    Returns:
        Metric → class → value; the class ``"mean"`` is the mean over classes.

    Raises:
        ValueError: as :func:`areas_by_class`.

    Example:
        >>> negative, positive = np.array([[0.2], [0.3], [0.1]]), np.array([[0.1], [0.4], [0.9]])
        >>> metrics = zero_shot_metrics(negative, positive, np.array([[0], [0], [1]]), ["edema"])
        >>> metrics["AUC"]["edema"], round(metrics["ACC"]["edema"], 3)
        (1.0, 0.667)
    """
    negative_scores, positive_scores, labels = as_array(negative_scores), as_array(positive_scores), known_labels(labels)
    if negative_scores.shape != positive_scores.shape:
        raise ValueError(
            f"negative_scores {negative_scores.shape} and positive_scores {positive_scores.shape}, expected the same shape"
        )
    if "mean" in class_names:
        raise ValueError(f"class_names are {list(class_names)}, expected none to be 'mean'")
    metrics = {
        "AUC": areas_by_class(positive_scores - negative_scores, labels, class_names),
        "AUC positive prompt": areas_by_class(positive_scores, labels, class_names),
    }
    right = np.where(np.isnan(labels), np.nan, (positive_scores > negative_scores) == labels)
    metrics["ACC"] = dict(zip(class_names, np.nanmean(right, axis=0).tolist(), strict=True))
    return {metric: {**values, "mean": float(np.mean(list(values.values())))} for metric, values in metrics.items()}
