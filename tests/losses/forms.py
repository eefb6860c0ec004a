"""The forms of the losses as loops over anchors: several views, hard negatives, a queue, and texts
by column.

A column is one number of an anchor's logits; nothing is shared with ``trueneg.losses``.
"""

from typing import NamedTuple

import torch

from tests.losses import by_the_book as book


class Column(NamedTuple):
    """A column of the logits of an anchor; ``owner`` is the sample of a hard negative."""

    kind: str
    column: int
    sample: int
    owner: int | None
    logit: torch.Tensor


def normal(*shape, seed=0):
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    ).requires_grad_()


def further_columns(anchor, i, hard, queue, column, sample, similarity):
    """Return the columns of hard negatives, (H, D) or (B, n, D), and of a queue, (Q, D)."""
    owners, keys = [], []
    if hard is not None and hard.dim() == 3:
        owners = [owner for owner in range(len(hard)) for _ in range(hard.shape[1])]
        keys = list(hard.flatten(0, 1))
    elif hard is not None:
        owners, keys = [i] * len(hard), list(hard)
    kinds = ["hard"] * len(keys)
    if queue is not None:
        kinds, keys = kinds + ["queue"] * len(queue), keys + list(queue)
        owners += [None] * len(queue)
    return [
        Column(kind, column + number, sample + number, owner, similarity(anchor, key))
        for number, (kind, owner, key) in enumerate(zip(kinds, owners, keys, strict=True))
    ]


def is_own_hard(i, column):
    return column.kind == "hard" and column.owner == i


def of_views(views, temperature, mass, hard=None, queue=None, keeps=None, extra=None):
    """Return the loss of each anchor, (V·B,), the first views first.

    ``mass`` gets the sample, the logits of its positives, and the columns of its negatives; a
    column is one if ``keeps(view, i, column)``.
    """
    count, losses = len(views[0]), []

    def similarity(one, other):
        return book.cosine(one, other) / temperature

    for v, view in enumerate(views):
        for i in range(count):
            columns = [
                Column("view", w * count + j, j, None, similarity(view[i], other[j]))
                for w, other in enumerate(views)
                for j in range(count)
            ]
            columns += further_columns(view[i], i, hard, queue, len(columns), count, similarity)
            own = [each.logit for each in columns if each.sample == i and each.column // count != v]
            draws = [] if extra is None else [similarity(view[i], each) for each in extra[i]]
            negatives = [
                each for each in columns if each.sample != i and (not keeps or keeps(v, i, each))
            ]
            total = mass(i, own + draws, negatives) if negatives else 0.0
            losses.append(sum(book.anchor_loss(positive, total) for positive in own) / len(own))
    return torch.stack(losses)


def of_pairs(
    texts, images, scale, mass, directions="both", hard=None, queue=(None, None), keeps=None
):
    """Return the loss of each anchor, texts first; the features are not normalised."""
    count, losses = len(texts), []

    def similarity(one, other):
        return scale * (one * other).sum()

    sides = {"text": (texts, images, hard, queue[0]), "image": (images, texts, None, queue[1])}
    for side in ("text", "image") if directions == "both" else (directions,):
        anchors, keys, near, past = sides[side]
        for i in range(count):
            columns = [
                Column("view", j, j, None, similarity(anchors[i], keys[j])) for j in range(count)
            ]
            columns += further_columns(anchors[i], i, near, past, count, count, similarity)
            negatives = [
                each for each in columns if each.sample != i and (not keeps or keeps(side, i, each))
            ]
            total = mass(i, [columns[i].logit], negatives) if negatives else 0.0
            losses.append(book.anchor_loss(columns[i].logit, total))
    return torch.stack(losses)


def logits_of(columns):
    return [each.logit for each in columns]


def plain(i, positives, negatives):
    return book.exp_sum(logits_of(negatives))


def hardness(negatives, temperature, alpha, weighted=lambda column: True):
    """Return Σ e^(α cos + u), whose weights are numbers; only some columns are weighted."""
    total = 0.0
    for each in negatives:
        weight = alpha * temperature * each.logit.item() if weighted(each) else 0.0
        total = total + torch.exp(each.logit + weight)
    return total


def supervised(views, labels, temperature, queue=None, queue_labels=None):
    """Return L_out of Khosla et al. (2020) of each anchor: the mean over all views of its class of
    a softmax over everything but the anchor. A label below 0 is shared with no other sample.
    """
    keys = [(j, int(labels[j]), each) for view in views for j, each in enumerate(view)]
    further = [] if queue is None else list(zip(queue_labels, queue, strict=True))
    keys += [(-1, int(label), key) for label, key in further]
    losses = []
    for a in range(len(views) * len(views[0])):
        i, label, anchor = keys[a]
        u = [book.cosine(anchor, key) / temperature for _, _, key in keys]
        denominator = book.exp_sum(each for k, each in enumerate(u) if k != a)
        positives = [
            u[k]
            for k, (j, other, _) in enumerate(keys)
            if k != a and (j == i or (label >= 0 and other == label))
        ]
        each = [-torch.log(torch.exp(positive) / denominator) for positive in positives]
        losses.append(sum(each) / len(each))
    return torch.stack(losses)
