"""Classification by a weighted vote of the nearest neighbours: nothing is trained."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.evaluation.images import SPLITS, EncodedRun, Measured, chance, of_groups
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EncodedRun], settings: Mapping[str, Any]) -> Iterator[Measured]:
    """Accuracies of the vote, and how many neighbours vote."""
    own = settings["knn"]
    yield from chance(runs, "knn")
    for run, pool in itertools.product(runs, own["label_pools"]):
        bank, labels = run.of(run.pool(pool))
        k = effective_k(own["neighbours"], labels)
        for split in SPLITS:
            vote = weighted_knn(bank, labels, run.of_split(split), k=k, temperature=own["temperature"], classes=run.classes)
            yield from of_groups(run, split, Measurement("knn", "accuracy", pool), vote)
            yield run, split, Measurement("knn", "neighbours", pool), k


def effective_k(k: int, bank_labels: Tensor) -> int:
    """The number of neighbours that a bank allows: ``min(k, size of its smallest class)``.

    With more neighbours than a rare class has images, that class could not win a vote, however good its
    features. Classes without a single image do not count.

    Args:
        k: the number wanted, at least 1.
        bank_labels: int64, shape (n,), n ≥ 1.

    Example:
        >>> effective_k(200, torch.tensor([0] * 500 + [1] * 14))
        14
    """
    return min(k, int(bank_labels.unique(return_counts=True)[1].min()))


def weighted_knn(
    bank: Tensor, bank_labels: Tensor, queries: Tensor, *, k: int, temperature: float = 0.1, classes: int, block: int = 2**24
) -> Tensor:
    r"""Classify queries by their k nearest neighbours in a bank, nearer ones counting more.

    .. math:: \hat c(q) = \arg\max_c \sum_{i \in \mathrm{kNN}(q),\, c_i = c} e^{s(q, i) / \text{temperature}}

    with :math:`s` the cosine similarity: Wu et al. (2018), Unsupervised Feature Learning via Non-Parametric
    Instance Discrimination, section 3.4. Of classes with equal votes the first wins.

    Args:
        bank: shape (n, D), features of the labelled images; need not be normalised.
        bank_labels: int64, shape (n,).
        queries: shape (m, D).
        k: neighbours that vote; see :func:`effective_k`.
        temperature: positive; ``math.inf`` gives every neighbour one vote.
        classes: C; labels are 0 … C − 1.
        block: similarities held at once (four bytes each); it bounds the memory and does not change the
            result.

    Returns:
        int64, shape (m,).

    Example:
        >>> bank = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.1, 0.9]])
        >>> weighted_knn(bank, torch.tensor([0, 1, 1]), torch.tensor([[3.0, 0.1]]), k=3, classes=2)
        tensor([0])
    """
    directions = functional.normalize(bank, dim=1)
    memberships = functional.one_hot(bank_labels, classes).to(bank.dtype)
    rows = max(1, block // max(len(bank), k * classes))
    predictions = [queries.new_empty(0, dtype=torch.int64)]
    for some in functional.normalize(queries, dim=1).split(rows):
        similarities, neighbours = (some @ directions.T).topk(k, dim=1)
        # Divided by the nearest neighbour's weight: the winner is the same, and nothing over- or underflows.
        weights = ((similarities - similarities[:, :1]) / temperature).exp()
        predictions.append(torch.einsum("qk,qkc->qc", weights, memberships[neighbours]).argmax(1))
    return torch.cat(predictions)
