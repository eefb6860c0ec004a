"""Classifier with class means as weights; its cost is negligible compared with that of the linear
probe.
"""

import torch
from torch import Tensor
from torch.nn import functional


def class_means(features: Tensor, labels: Tensor, classes: int) -> Tensor:
    r"""Compute the mean of the L2-normalised features of each class.

    .. math:: \mu_c = \mathbb{E}_{x \in c}\bigl[f(x) / \|f(x)\|\bigr]

    Each feature vector is divided by its own length; the means are NOT normalised again.

    Args:
        features: shape (n, D).
        labels: int64, shape (n,), in 0 … classes − 1.
        classes: C, number of classes.

    Returns:
        Shape (C, D); NaN for classes without samples.

    Example:
        >>> class_means(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), classes=1)
        tensor([[0.5000, 0.5000]])
    """
    memberships = functional.one_hot(labels, classes).to(features.dtype)
    return memberships.T @ functional.normalize(features, dim=1) / memberships.sum(0).unsqueeze(1)


def mean_classifier(bank: Tensor, bank_labels: Tensor, queries: Tensor, *, classes: int) -> Tensor:
    r"""Classify queries by their inner product with each class mean.

    .. math:: \hat c(q) = \arg\max_c f(q)^\top \mu_c

    This is the classifier of Sample-Specific Debiasing (2023), Appendix A.2, Eq. 16: the rows of W
    are the class means, without a bias. In the paper, f is the fixed-length embedding that the loss
    compares, so features are L2-normalised here but the means are not (:func:`class_means`). A
    class whose features point in many directions has a short mean and wins less often; the
    nearest-centroid rule is a different classifier.

    Args:
        bank: shape (n, D), features of the labelled images.
        bank_labels: int64, shape (n,), in 0 … classes − 1.
        queries: shape (m, D).
        classes: C, number of classes; a class without images in the bank is never predicted.

    Returns:
        int64, shape (m,).

    Example:
        >>> bank = torch.tensor([[1.0, 0.0], [0.0, 5.0]])
        >>> mean_classifier(bank, torch.tensor([0, 1]), torch.tensor([[0.2, 0.1]]), classes=3)
        tensor([0])
    """
    scores = functional.normalize(queries, dim=1) @ class_means(bank, bank_labels, classes).T
    return scores.nan_to_num(nan=-torch.inf).argmax(1)
