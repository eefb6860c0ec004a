"""Retrieval metrics with explicit handling of ties: ranks, recall, median rank and precision."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy import ndarray

Ties = Literal["against", "for"]


def as_array(values) -> ndarray:
    """Convert an array, a list or a torch tensor (any device, with or without gradient) to a NumPy
    array.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() and values.itemsize < 4 else values
    return np.asarray(values)


def ranks(scores, relevant=None, *, ties: Ties = "against") -> ndarray:
    r"""Compute the rank, from 1, of each query's best relevant candidate among the irrelevant ones.

    .. math::

        r_q = 1 +
        \bigl|\{c \text{ irrelevant}: s_{qc} \ge \max_{c' \text{ relevant}} s_{qc'}\}\bigr|

    Relevant candidates never push each other down, so a query with several (five captions of one
    image, boxes that share a sentence) is a hit as soon as one of them is found. Equal scores count
    against the method: an encoder that maps everything to one point ranks last, not first. If an
    item occurs several times, compute its embedding once so that rounding cannot break ties.

    Args:
        scores: (Q, C), higher is nearer; array or tensor.
        relevant: (Q, C) bool, at least one true per row. By default, candidate q is the relevant
            one for query q; further candidates are distractors.
        ties: ``"against"``, as in the equation, or ``"for"`` (> in place of ≥), the optimistic
            rank. The difference between the two shows how much ties matter.

    Returns:
        int64, shape (Q,).

    Raises:
        ValueError: if shapes do not match, a score is NaN, a query has no relevant candidate, or
            ``ties`` is unknown.

    Example:
        >>> ranks(np.array([[0.9, 0.9, 0.1], [0.3, 0.8, 0.2]])).tolist()
        [2, 1]
    """
    scores = _matrix(scores)
    relevant = np.eye(*scores.shape, dtype=bool) if relevant is None else as_array(relevant)
    if relevant.shape != scores.shape or relevant.dtype != bool:
        raise ValueError(
            f"relevant is {relevant.dtype} of shape {relevant.shape}; expected bool of shape"
            f" {scores.shape}"
        )
    if not relevant.any(1).all():
        raise ValueError(
            f"query {relevant.any(1).argmin()} has no relevant candidate; remove such queries"
        )
    best = np.where(relevant, scores, -np.inf).max(1, keepdims=True)
    before = scores >= best if _against(ties) else scores > best
    return 1 + np.count_nonzero(before & ~relevant, axis=1)


def recall_at_k(
    scores, ks: Sequence[int], relevant=None, *, ties: Ties = "against"
) -> dict[int, float]:
    """Compute the share of queries with a relevant candidate among the first k (each query is a hit
    or a miss).

    Args:
        scores: (Q, C), higher is nearer; array or tensor.
        ks: list lengths; for k ≥ C the recall is 1.
        relevant: see :func:`ranks`.
        ties: see :func:`ranks`.

    Returns:
        k → recall in [0, 1].

    Raises:
        ValueError: see :func:`ranks`; also if a k is not positive.

    Example:
        >>> recall_at_k(np.array([[0.9, 0.1, 0.3], [0.9, 0.8, 0.2]]), ks=(1, 2))
        {1: 0.5, 2: 1.0}
    """
    best_ranks = ranks(scores, relevant, ties=ties)
    return {k: float((best_ranks <= k).mean()) for k in _lengths(ks)}


def median_rank(scores, relevant=None, *, ties: Ties = "against") -> float:
    """Compute the median over queries of the rank of the best relevant candidate (MedR); 1 is best.

    Args:
        scores: (Q, C), higher is nearer; array or tensor.
        relevant: see :func:`ranks`.
        ties: see :func:`ranks`.

    Raises:
        ValueError: see :func:`ranks`.

    Example:
        >>> median_rank(np.array([[0.9, 0.1], [0.9, 0.8]]))
        1.5
    """
    return float(np.median(ranks(scores, relevant, ties=ties)))


class Metric(NamedTuple):
    """Name (R, MedR or chance) of a retrieval metric with its direction and list length k; None:
    the mean over them.
    """

    metric: str
    direction: str | None = None
    k: int | None = None


def ranks_both_ways(scores, relevant=None, *, ties: Ties = "against") -> dict[str, ndarray]:
    """Compute the :func:`ranks` of texts and of images as queries, by direction; see
    :func:`retrieval_both_ways` for the arguments.
    """
    of_text = None if relevant is None else as_array(relevant)
    of_image = None if of_text is None else of_text.T
    return {
        "text to image": ranks(as_array(scores), of_text, ties=ties),
        "image to text": ranks(as_array(scores).T, of_image, ties=ties),
    }


def retrieval_both_ways(
    scores, ks: Sequence[int], relevant=None, *, ties: Ties = "against"
) -> dict[Metric, float]:
    """Compute recall and median rank from text to image and from image to text, and their means.

    In Sample-Specific Debiasing (2023), Tables 1 and 5, Recall is the mean over all k and both
    directions, and MedR is the mean of the two median ranks.

    Args:
        scores: (texts, images) or (sentences, boxes), higher is nearer; array or tensor.
        ks: list lengths.
        relevant: (texts, images) bool; by default, text i belongs to image i.
        ties: see :func:`ranks`.

    Returns:
        R at each k and MedR from text to image, the same from image to text, and the means of all R
            and of both MedR values.

    Raises:
        ValueError: see :func:`recall_at_k`.

    Example:
        >>> metrics = retrieval_both_ways(np.array([[0.9, 0.1], [0.8, 0.7]]), ks=(1,))
        >>> recalls = [
        ...     Metric("R", "text to image", 1),
        ...     Metric("R", "image to text", 1),
        ...     Metric("R"),
        ... ]
        >>> [metrics[recall] for recall in recalls]
        [0.5, 1.0, 0.75]
    """
    return metrics_both_ways(ranks_both_ways(scores, relevant, ties=ties), ks)


def metrics_both_ways(best: Mapping[str, ndarray], ks: Sequence[int]) -> dict[Metric, float]:
    """Return the metrics of :func:`retrieval_both_ways` for ranks in both directions."""
    metrics: dict[Metric, float] = {}
    for direction, best_ranks in best.items():
        metrics |= {
            Metric("R", direction, k): float((best_ranks <= k).mean()) for k in _lengths(ks)
        }
        metrics[Metric("MedR", direction)] = float(np.median(best_ranks))
    for name in ("R", "MedR"):
        metrics[Metric(name)] = float(
            np.mean([value for metric, value in metrics.items() if metric.metric == name])
        )
    return metrics


def chance_recall_both_ways(relevant, ks: Sequence[int]) -> dict[Metric, float]:
    r"""Compute the expected value of each recall of :func:`retrieval_both_ways` for a uniformly
    random order of candidates.

    .. math:: 1 - \prod_{i=0}^{k-1} \frac{C - m - i}{C - i}

    for a query with m relevant candidates among C, averaged over queries.

    Args:
        relevant: (texts, images) bool or 0 and 1, at least one true per row and column.
        ks: list lengths.

    Returns:
        The metric ``chance`` at each k from text to image, and from image to text, and the mean
            over all of them.

    Example:
        >>> by_chance = chance_recall_both_ways(np.array([[1, 0], [1, 0], [0, 1]]), ks=(1,))
        >>> by_chance[Metric("chance", "text to image", 1)]
        0.5
    """
    recalls = {}
    for direction, is_relevant in (("text to image", relevant), ("image to text", relevant.T)):
        candidates = is_relevant.shape[1]
        irrelevant = candidates - is_relevant.sum(1)
        for k in ks:
            missed = np.prod(
                [
                    np.maximum(irrelevant - i, 0) / (candidates - i)
                    for i in range(min(k, candidates))
                ],
                axis=0,
            )
            recalls[Metric("chance", direction, k)] = float(1 - missed.mean())
    return recalls | {Metric("chance"): float(np.mean(list(recalls.values())))}


def precisions_at_k(
    scores, query_labels, candidate_labels, ks: Sequence[int], *, ties: Ties = "against"
) -> ndarray:
    """Compute, for each query, the share of the first k candidates that belong to its class.

    Among candidates tied at the end of the list, those of other classes come first
    (``ties="against"``) or last.

    Args:
        scores: (Q, C), higher is nearer; array or tensor.
        query_labels: (Q,) integers, the class of each query.
        candidate_labels: (C,) integers, the class of each candidate; or a 0/1 matrix (C, L) of
            candidates and L classes, in which case a candidate is correct if its label for the
            query's class is 1.
        ks: list lengths, each at most C.
        ties: see :func:`ranks`.

    Returns:
        float64, shape (Q, len(ks)).

    Raises:
        ValueError: if shapes do not match, a score is NaN, a k is not in 1 … C, or ``ties`` is
            unknown.

    Example:
        >>> precisions_at_k(np.array([[0.9, 0.8, 0.1]]), [1], [1, 0, 1], ks=(1, 2)).tolist()
        [[1.0, 0.5]]
    """
    scores = _matrix(scores)
    labels = as_array(query_labels)
    candidates = as_array(candidate_labels)
    correct = labels[:, None] == candidates if candidates.ndim == 1 else candidates.T[labels] == 1
    if correct.shape != scores.shape:
        raise ValueError(
            f"query_labels {labels.shape} and candidate_labels {candidates.shape} do not match"
            f" scores {scores.shape}"
        )
    lengths = np.array(_lengths(ks, longest=scores.shape[1]))
    # Sort by score; among equal scores, wrong candidates come first if ties count against the
    # method.
    order = np.lexsort((correct if _against(ties) else ~correct, -scores), axis=1)
    hits = np.take_along_axis(correct, order, axis=1).cumsum(axis=1)
    return hits.take(lengths - 1, axis=1) / lengths


def precision_at_k(
    scores, query_labels, candidate_labels, ks: Sequence[int], *, ties: Ties = "against"
) -> dict[int, float]:
    """Compute Prec@k: the mean over queries of the share of correct candidates among the first k
    (ConVIRT; ReCo, section 4.1).

    Args:
        scores: (Q, C), higher is nearer; array or tensor. A query must not be among its own
            candidates.
        query_labels: see :func:`precisions_at_k`.
        candidate_labels: see :func:`precisions_at_k`.
        ks: list lengths.
        ties: see :func:`ranks`.

    Returns:
        k → precision in [0, 1].

    Raises:
        ValueError: see :func:`precisions_at_k`.

    Example:
        >>> precision_at_k(
        ...     np.array([[0.9, 0.8, 0.1], [0.2, 0.3, 0.4]]), [1, 1], [1, 0, 1], ks=(1, 2)
        ... )
        {1: 1.0, 2: 0.5}
    """
    return dict(
        zip(
            ks,
            precisions_at_k(scores, query_labels, candidate_labels, ks, ties=ties).mean(0).tolist(),
            strict=True,
        )
    )


def _against(ties: Ties) -> bool:
    if ties not in ("against", "for"):
        raise ValueError(f"ties is {ties!r}; expected 'against' or 'for'")
    return ties == "against"


def _matrix(scores) -> ndarray:
    """Validate and return the scores (queries, candidates), which must not contain NaN."""
    scores = as_array(scores)
    if scores.ndim != 2 or not scores.size:
        raise ValueError(
            f"scores have shape {scores.shape}; expected (queries, candidates) with at least one of"
            " each"
        )
    unordered = np.isnan(scores).any(1)
    if unordered.any():
        raise ValueError(f"scores of query {unordered.argmax()} contain NaN")
    return scores


def _lengths(ks: Sequence[int], longest: float = math.inf) -> Sequence[int]:
    """Validate and return list lengths: at least one, and none below 1 or above `longest`, the
    number of candidates.
    """
    if not len(ks) or not 1 <= min(ks) <= max(ks) <= longest:
        limit = f" and at most {longest}" if math.isfinite(longest) else ""
        raise ValueError(f"ks are {list(ks)}; expected one or more numbers of at least 1{limit}")
    return ks
