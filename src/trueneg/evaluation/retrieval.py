"""Retrieval: ranks that account for ties, and the recall, median rank and precision made of them."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

Ties = Literal["against", "for"]


def as_array(values) -> np.ndarray:
    """A NumPy array of an array, a list or a torch tensor on any device, with or without gradient."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() and values.itemsize < 4 else values
    return np.asarray(values)


def ranks(scores, relevant=None, *, ties: Ties = "against", block: int = 2**22) -> np.ndarray:
    r"""The rank, from 1, of each query's best relevant candidate among the irrelevant ones.

    .. math:: r_q = 1 + \bigl|\{c \text{ irrelevant}: s_{qc} \ge \max_{c' \text{ relevant}} s_{qc'}\}\bigr|

    Relevant candidates never push each other down, so a query with several (five captions of one image,
    boxes that share a sentence) is found as soon as one of them is. Equal scores count against the method:
    an encoder that maps everything to one point ranks last, not first. Where items occur several times,
    compute each item's embedding once: rounding then cannot break ties.

    Args:
        scores: (Q, C), higher is nearer; array or tensor.
        relevant: (Q, C) bool, at least one true a row. By default candidate q is the one that query q seeks;
            further candidates are distractors.
        ties: ``"against"`` as in the equation, or ``"for"`` (> in place of ≥): the optimistic rank. How much
            the two differ shows how much ties matter.
        block: scores looked at at once; it bounds the memory beside the scores and does not change the result.

    Returns:
        int64, shape (Q,).

    Raises:
        ValueError: if shapes do not fit, a score is NaN, a query has no relevant candidate, or ``ties`` is
            unknown.

    Example:
        >>> ranks(np.array([[0.9, 0.9, 0.1], [0.3, 0.8, 0.2]])).tolist()
        [2, 1]
    """
    scores, relevant = _scores_and_relevance(scores, relevant)
    if relevant is None and len(scores) > scores.shape[1]:
        raise ValueError(f"scores have the shape {scores.shape}: query q seeks candidate q, so there must be one for each query")
    compare = np.greater_equal if _against(ties) else np.greater
    found = np.empty(len(scores), np.int64)
    for rows in _blocks(scores, block):
        some = scores[rows]
        _refuse_nan(some, rows.start)
        if relevant is None:
            best = some[np.arange(len(some)), np.arange(rows.start, rows.stop)]
            found[rows] = np.count_nonzero(compare(some, best[:, None]), axis=1) + (not _against(ties))
        else:
            sought = relevant[rows]
            without = np.flatnonzero(~sought.any(1))
            if len(without):
                raise ValueError(f"query {rows.start + without[0]} has no relevant candidate; leave such queries out")
            best = np.where(sought, some, -np.inf).max(1)
            found[rows] = 1 + np.count_nonzero(compare(some, best[:, None]) & ~sought, axis=1)
    return found


def recall_at_k(scores, ks: Sequence[int], relevant=None, *, ties: Ties = "against") -> dict[int, float]:
    """The share of queries with a relevant candidate among the first k (a hit or miss a query, not a share of relevant ones).

    Args:
        scores: (Q, C), higher is nearer; array or tensor.
        ks: list lengths; a k of at least C finds everything.
        relevant: as for :func:`ranks`.
        ties: as for :func:`ranks`.

    Returns:
        k → recall in [0, 1].

    Raises:
        ValueError: as :func:`ranks`, or if a k is not positive.

    Example:
        >>> recall_at_k(np.array([[0.9, 0.1, 0.3], [0.9, 0.8, 0.2]]), ks=(1, 2))
        {1: 0.5, 2: 1.0}
    """
    _refuse_lengths(ks)
    found = ranks(scores, relevant, ties=ties)
    return {k: float((found <= k).mean()) for k in ks}


def median_rank(scores, relevant=None, *, ties: Ties = "against") -> float:
    """The median over queries of the rank of the best relevant candidate (MedR); 1 is best.

    Args:
        scores: (Q, C), higher is nearer; array or tensor.
        relevant: as for :func:`ranks`.
        ties: as for :func:`ranks`.

    Raises:
        ValueError: as :func:`ranks`.

    Example:
        >>> median_rank(np.array([[0.9, 0.1], [0.9, 0.8]]))
        1.5
    """
    return float(np.median(ranks(scores, relevant, ties=ties)))


class Metric(NamedTuple):
    """R or MedR, from texts to images or back; without direction and k the mean over them."""

    metric: str
    direction: str | None = None
    k: int | None = None


def retrieval_both_ways(
    scores, ks: Sequence[int] = (10, 50, 100), relevant=None, *, ties: Ties = "against"
) -> dict[Metric, float]:
    """Recall and median rank from text to image and from image to text, and their means.

    Sample-Specific Debiasing (2023), Tables 1 and 5: its Recall is the mean over all k and both directions, its MedR that of
    the two median ranks.

    Args:
        scores: (texts, images), or (sentences, boxes), higher is nearer; array or tensor.
        ks: list lengths.
        relevant: (texts, images) bool; by default text i belongs to image i.
        ties: as for :func:`ranks`.

    Returns:
        R at each k and MedR from text to image, the same from image to text, and the means of all R and of both MedR.

    Raises:
        ValueError: as :func:`recall_at_k`, or without ``relevant`` if the scores are not square.

    Example:
        >>> metrics = retrieval_both_ways(np.array([[0.9, 0.1], [0.8, 0.7]]), ks=(1,))
        >>> metrics[Metric("R", "text to image", 1)], metrics[Metric("R", "image to text", 1)], metrics[Metric("R")]
        (0.5, 1.0, 0.75)
    """
    _refuse_lengths(ks)
    scores, relevant = _scores_and_relevance(scores, relevant)
    if relevant is None and scores.shape[0] != scores.shape[1]:
        raise ValueError(f"scores have the shape {scores.shape}, expected as many texts as images, or relevant={scores.shape}")
    metrics = {}
    for direction, own, sought in (
        ("text to image", scores, relevant),
        ("image to text", scores.T, None if relevant is None else relevant.T),
    ):
        found = ranks(own, sought, ties=ties)
        metrics |= {Metric("R", direction, k): float((found <= k).mean()) for k in ks}
        metrics[Metric("MedR", direction)] = float(np.median(found))
    for name in ("R", "MedR"):
        metrics[Metric(name)] = float(np.mean([value for one, value in metrics.items() if one.metric == name]))
    return metrics


def chance_recall_both_ways(relevant, ks: Sequence[int]) -> dict[Metric, float]:
    r"""What :func:`retrieval_both_ways` gives of each recall, on average, where all orders of the candidates are as likely.

    .. math:: 1 - \prod_{i=0}^{k-1} \frac{C - m - i}{C - i}

    for a query with m of C candidates relevant, averaged over queries.

    Args:
        relevant: (texts, images) bool, at least one true a row and a column.
        ks: list lengths.

    Returns:
        R at each k from text to image, and from image to text.

    Raises:
        ValueError: if a k is not positive, or a query has no relevant candidate.

    Example:
        >>> by_chance = chance_recall_both_ways(np.array([[True, False], [True, False], [False, True]]), ks=(1,))
        >>> by_chance[Metric("R", "text to image", 1)]
        0.5
    """
    _refuse_lengths(ks)
    relevant, found = as_array(relevant), {}
    for direction, sought in (("text to image", relevant), ("image to text", relevant.T)):
        candidates, own = sought.shape[1], sought.sum(1)
        if not own.all():
            raise ValueError(f"query {int(own.argmin())} has no relevant candidate; leave such queries out")
        for k in ks:
            missed = np.prod([np.maximum(candidates - own - i, 0) / (candidates - i) for i in range(min(k, candidates))], axis=0)
            found[Metric("R", direction, k)] = float(1 - missed.mean())
    return found


def precisions_at_k(
    scores, query_labels, candidate_labels, ks: Sequence[int], *, ties: Ties = "against", block: int = 2**22
) -> np.ndarray:
    """Each query's share of candidates of its own class among the first k.

    Of candidates tied at the end of the list, those of other classes come first (``ties="against"``), or last.

    Args:
        scores: (Q, C), higher is nearer; array or tensor.
        query_labels: (Q,) integers, the class of each query.
        candidate_labels: (C,) integers, the class of each candidate; or (C, L) of 0 and 1, the L classes that
            each candidate shows: correct is then a candidate whose label for the query's class is 1.
        ks: list lengths, each at most C.
        ties: as for :func:`ranks`.
        block: as for :func:`ranks`.

    Returns:
        float64, shape (Q, len(ks)).

    Raises:
        ValueError: if shapes do not fit, a score is NaN, a k is not in 1 … C, labels are not as described, or
            ``ties`` is unknown.

    Example:
        >>> precisions_at_k(np.array([[0.9, 0.8, 0.1]]), [1], [1, 0, 1], ks=(1, 2)).tolist()
        [[1.0, 0.5]]
    """
    scores, _ = _scores_and_relevance(scores, None)
    query_labels, candidate_labels = as_array(query_labels), as_array(candidate_labels)
    _refuse_labels(scores.shape, query_labels, candidate_labels)
    _refuse_lengths(ks, longest=scores.shape[1])
    against = _against(ties)
    precisions = np.empty((len(scores), len(ks)))
    for rows in _blocks(scores, block):
        some = scores[rows]
        _refuse_nan(some, rows.start)
        if candidate_labels.ndim == 1:
            correct = query_labels[rows, None] == candidate_labels
        else:
            correct = candidate_labels.T[query_labels[rows]] == 1
        ordered = np.partition(some, [some.shape[1] - k for k in ks], axis=1)
        for column, k in enumerate(ks):
            last = ordered[:, some.shape[1] - k, None]
            above, tied = some > last, some == last
            hits = np.count_nonzero(above & correct, axis=1)
            places = k - np.count_nonzero(above, axis=1)
            tied_correct = np.count_nonzero(tied & correct, axis=1)
            tied_wrong = np.count_nonzero(tied, axis=1) - tied_correct
            hits += np.maximum(places - tied_wrong, 0) if against else np.minimum(places, tied_correct)
            precisions[rows, column] = hits / k
    return precisions


def precision_at_k(scores, query_labels, candidate_labels, ks: Sequence[int], *, ties: Ties = "against") -> dict[int, float]:
    """Prec@k: the mean over queries of the share of correct candidates among the first k (ConVIRT; ReCo, section 4.1).

    Args:
        scores: (Q, C), higher is nearer; array or tensor. A query must not be among its own candidates.
        query_labels: as for :func:`precisions_at_k`.
        candidate_labels: as for :func:`precisions_at_k`.
        ks: list lengths.
        ties: as for :func:`ranks`.

    Returns:
        k → precision in [0, 1].

    Raises:
        ValueError: as :func:`precisions_at_k`.

    Example:
        >>> precision_at_k(np.array([[0.9, 0.8, 0.1], [0.2, 0.3, 0.4]]), [1, 1], [1, 0, 1], ks=(1, 2))
        {1: 1.0, 2: 0.5}
    """
    return dict(zip(ks, precisions_at_k(scores, query_labels, candidate_labels, ks, ties=ties).mean(0).tolist(), strict=True))


def _blocks(scores: np.ndarray, block: int) -> Iterator[slice]:
    step = max(1, block // scores.shape[1])
    for start in range(0, len(scores), step):
        yield slice(start, min(start + step, len(scores)))


def _against(ties: Ties) -> bool:
    if ties not in ("against", "for"):
        raise ValueError(f"ties is {ties!r}, expected 'against' or 'for'")
    return ties == "against"


def _scores_and_relevance(scores, relevant) -> tuple[np.ndarray, np.ndarray | None]:
    scores = as_array(scores)
    if scores.ndim != 2 or not scores.size:
        raise ValueError(f"scores have the shape {scores.shape}, expected (queries, candidates), at least one of each")
    if relevant is None:
        return scores, None
    relevant = as_array(relevant)
    if relevant.shape != scores.shape or relevant.dtype != bool:
        raise ValueError(f"relevant is {relevant.dtype} of shape {relevant.shape}, expected bool of shape {scores.shape}")
    return scores, relevant


def _refuse_nan(scores: np.ndarray, first_query: int) -> None:
    unordered = np.isnan(scores).any(1)
    if unordered.any():
        raise ValueError(f"scores of query {first_query + unordered.argmax()} hold NaN, expected numbers")


def _refuse_lengths(ks: Sequence[int], longest: int | None = None) -> None:
    if not len(ks) or min(ks) < 1 or (longest is not None and max(ks) > longest):
        limit = "" if longest is None else f" and at most {longest}, the number of candidates"
        raise ValueError(f"ks are {list(ks)}, expected numbers of at least 1{limit}")


def _refuse_labels(shape: tuple[int, int], query_labels: np.ndarray, candidate_labels: np.ndarray) -> None:
    queries, candidates = shape
    if query_labels.shape != (queries,) or candidate_labels.shape[:1] != (candidates,) or candidate_labels.ndim > 2:
        raise ValueError(
            f"query_labels {query_labels.shape} and candidate_labels {candidate_labels.shape}, expected "
            f"({queries},) and ({candidates},) or ({candidates}, classes)"
        )
    classes = candidate_labels.shape[1] if candidate_labels.ndim == 2 else None
    if classes is not None and not (query_labels.min() >= 0 and query_labels.max() < classes):
        raise ValueError(f"query_labels go from {query_labels.min()} to {query_labels.max()}, expected 0 to {classes - 1}")
