"""Which columns of a similarity matrix are an anchor's negatives: all but its own sample."""

import torch
from torch import Tensor


def without_own(blocks: Tensor, start: int = 0) -> Tensor:
    """Drop column ``start + i`` from row i: (…, c, G) → (…, c, G − 1), the other columns in their order.

    Args:
        blocks: rows are anchors, columns all samples; row i belongs to sample ``start + i``.
        start: the sample of the first row.

    Example:
        >>> without_own(torch.arange(9).view(3, 3)).tolist()
        [[1, 2], [3, 5], [6, 7]]
    """
    rows, columns = blocks.shape[-2:]
    if rows == columns:
        return _without_diagonal(blocks)
    before, own, after = blocks.split((start, rows, columns - start - rows), dim=-1)
    return torch.cat((before, _without_diagonal(own), after), dim=-1)


def _without_diagonal(blocks: Tensor) -> Tensor:
    size = blocks.shape[-1]
    # In a flat n×n matrix, the entries after the first are n − 1 runs of n that are kept, each followed by one of the diagonal.
    runs = blocks.flatten(-2)[..., 1:].unflatten(-1, (size - 1, size + 1))[..., :-1]
    return runs.reshape(*blocks.shape[:-1], size - 1)
