"""Losses and targets as loops over plain numbers, for tests of which negatives count."""

import math

import torch
from hypothesis import settings
from hypothesis import strategies as st

from tests.losses import by_the_book as book

PROPERTIES = settings(deadline=None, max_examples=15)


SEEDS = st.integers(0, 10_000)


COUNTS = st.integers(2, 6)


def draws_of(seed):
    return torch.Generator().manual_seed(seed)


def uniform(*shape, seed):
    return 2 * torch.rand(*shape, generator=draws_of(seed), dtype=torch.float64) - 1


def target_rows(*shape, seed):
    rows = torch.rand(*shape, generator=draws_of(seed), dtype=torch.float64)
    return rows / rows.sum(1, keepdim=True)


def anchor_loss(positive, negatives, removed, own_share=1.0, shares=None, decoupled=False):
    """Return an anchor's loss, given the logits of its negatives, which of them are removed, and
    the targets.
    """
    left = [u for u, out in zip(negatives, removed, strict=True) if not out]
    if decoupled and not left:
        return positive * 0
    mass = book.exp_sum(left)
    denominator = mass if decoupled else torch.exp(positive) + mass
    attracted = own_share * positive
    for share, u in zip(shares or [], negatives if shares else [], strict=True):
        attracted = attracted + share * u
    return torch.log(denominator) - attracted


def two_views(z1, z2, temperature, removed, targets=None, decoupled=False):
    """Return the mean over the 2B anchors; ``removed(view, i, negatives)`` returns a flag per
    (view, sample, logit).
    """
    views, count, losses = (z1, z2), len(z1), []
    for view in (0, 1):
        for i in range(count):
            cosine = {
                (w, j): book.cosine(views[view][i], views[w][j]) / temperature
                for w in (0, 1)
                for j in range(count)
            }
            places = [(w, j) for w in (0, 1) for j in range(count) if j != i]
            negatives = [(w, j, cosine[w, j]) for w, j in places]
            shares = None if targets is None else [float(targets[i, j]) / 2 for _, j in places]
            own = 1.0 if targets is None else float(targets[i, i])
            out = removed(view, i, negatives)
            losses.append(
                anchor_loss(
                    cosine[1 - view, i], [u for *_, u in negatives], out, own, shares, decoupled
                )
            )
    return sum(losses) / len(losses)


def texts_and_images(
    similarity, scale, directions, removed, targets=(None, None), decoupled=False, exclude=None
):
    """Return the mean over the anchors of all directions; ``removed(direction, i, negatives)``
    flags each (column, logit).
    """
    count, columns, losses = *similarity.shape, []
    for direction in directions:
        for i in range(count):
            width, own_targets = (
                (columns, targets[0]) if direction == "text" else (count, targets[1])
            )
            value = (
                (lambda j, i=i: similarity[i, j])
                if direction == "text"
                else (lambda j, i=i: similarity[j, i])
            )
            places = [j for j in range(width) if j != i]
            shares = None if own_targets is None else [float(own_targets[i, j]) for j in places]
            own = 1.0 if own_targets is None else float(own_targets[i, i])
            negatives = [(j, scale * value(j)) for j in places]
            no_negative = [
                exclude is not None and bool(exclude[(i, j) if direction == "text" else (j, i)])
                for j in places
            ]
            kept = [each for each, no in zip(negatives, no_negative, strict=True) if not no]
            flags = iter(removed(direction, i, kept))
            out = [no or next(flags) for no in no_negative]
            losses.append(
                anchor_loss(
                    scale * value(i), [u for _, u in negatives], out, own, shares, decoupled
                )
            )
    return sum(losses) / len(losses)


def views_of(seed, count, dimensions=4):
    first = uniform(count, dimensions, seed=seed)
    return first.requires_grad_(), (
        first.detach() + uniform(count, dimensions, seed=seed + 1)
    ).requires_grad_()


def none_removed(view, i, negatives):
    return [False] * len(negatives)


def top_share(view, i, negatives, share):
    logits = sorted((each[-1].item() for each in negatives), reverse=True)
    k = math.ceil(share * len(logits) - 1e-9)
    threshold = logits[k] if k < len(logits) else -math.inf
    return [each[-1].item() > threshold for each in negatives]


def waves(shift, step, rows=5, columns=4):
    return torch.tensor(
        [
            [math.sin(shift * (1 + r) + step * (1 + c) * (1 + r)) for c in range(columns)]
            for r in range(rows)
        ]
    )
