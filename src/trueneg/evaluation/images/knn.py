"""Classification by a weighted vote of the nearest neighbours, without training."""

import itertools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.evaluation.images import EncodedRun, Measured, chance, of_groups
from trueneg.specs.sections import Section
from trueneg.stats.measurement import Measurement


def measure(runs: Sequence[EncodedRun], settings: Section) -> Iterator[Measured]:
    """Yield the accuracies of the nearest-neighbour vote, and the number of neighbours used."""
    knn = settings["knn"]
    yield from chance(runs, "knn")
    for run, pool in itertools.product(runs, knn["label_pools"]):
        bank, labels = run.of(run.pool(pool))
        k = effective_k(knn["neighbours"], labels.cpu())
        for split in run.splits:
            vote = weighted_knn(
                bank,
                labels,
                run.of_split(split),
                k=k,
                temperature=knn["temperature"],
                classes=run.classes,
            )
            yield from of_groups(run, split, Measurement("knn", "accuracy", pool), vote)
            yield run, split, Measurement("knn", "neighbours", pool), k


def effective_k(k: int, bank_labels: Tensor) -> int:
    """Return the number of neighbours that a bank allows: ``min(k, size of its smallest class)``.

    With more neighbours than a rare class has images, that class could not win a vote, however good
    its features. Classes without images are ignored.

    Args:
        k: requested number of neighbours, at least 1.
        bank_labels: int64, shape (n,), n ≥ 1.

    Example:
        >>> effective_k(200, torch.tensor([0] * 500 + [1] * 14))
        14
    """
    return min(k, int(bank_labels.unique(return_counts=True)[1].min()))


def weighted_knn(
    bank: Tensor,
    bank_labels: Tensor,
    queries: Tensor,
    *,
    k: int,
    temperature: float = 0.1,
    classes: int,
    block: int = 2**24,
) -> Tensor:
    r"""Classify queries by their k nearest neighbours in a bank; nearer neighbours have more
    weight.

    .. math::

        \hat c(q) = \arg\max_c \sum_{i \in \mathrm{kNN}(q),\, c_i =
        c} e^{s(q, i) / \text{temperature}}

    where :math:`s` is the cosine similarity: Wu et al. (2018), Unsupervised Feature Learning via
    Non-Parametric Instance Discrimination, section 3.4. Among classes with equal votes, the first
    wins.

    Args:
        bank: shape (n, D), features of the labelled images; they need not be normalised.
        bank_labels: int64, shape (n,).
        queries: shape (m, D).
        k: number of neighbours; see :func:`effective_k`.
        temperature: positive; ``math.inf`` gives every neighbour one vote.
        classes: C, number of classes; labels are 0 … C − 1.
        block: number of similarities in memory at once (four bytes each); does not change the
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
    for part in functional.normalize(queries, dim=1).split(rows):
        similarities, neighbours = (part @ directions.T).topk(k, dim=1)
        # Dividing by the nearest neighbour's weight avoids overflow and underflow and does not
        # change the winner.
        weights = ((similarities - similarities[:, :1]) / temperature).exp()
        predictions.append(torch.einsum("qk,qkc->qc", weights, memberships[neighbours]).argmax(1))
    return torch.cat(predictions)
