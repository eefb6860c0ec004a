"""Which columns of a similarity matrix are an anchor's negatives: all but its own sample."""

import torch
from torch import Tensor


def without_own(blocks: Tensor, start: int = 0) -> Tensor:
    """Drop column ``start + i`` from row i: (…, c, G) → (…, c, G − 1), the others in their order.

    Args:
        blocks: rows are anchors, columns all samples; row i belongs to sample ``start + i``.
        start: the sample of the first row.

    Example:
        >>> without_own(torch.arange(9).view(3, 3)).tolist()
        [[1, 2], [3, 5], [6, 7]]
        >>> without_own(torch.arange(6).view(2, 3), start=1).tolist()
        [[0, 2], [3, 4]]
    """
    rows, columns = blocks.shape[-2:]
    if rows == columns:
        return _WithoutDiagonal.apply(blocks)
    before, own, after = blocks.split((start, rows, columns - start - rows), dim=-1)
    return torch.cat((before, _WithoutDiagonal.apply(own), after), dim=-1)


class _WithoutDiagonal(torch.autograd.Function):
    """(…, n, n) → (…, n, n − 1). Its own function, as plain slices' gradient fills and copies the matrix twice."""

    @staticmethod
    def forward(ctx, blocks: Tensor) -> Tensor:
        return _runs(blocks.contiguous()).reshape(*blocks.shape[:-1], blocks.shape[-1] - 1)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return _WithZeroDiagonal.apply(gradient)


class _WithZeroDiagonal(torch.autograd.Function):
    """(…, n, n − 1) → (…, n, n), the transpose of :class:`_WithoutDiagonal`."""

    @staticmethod
    def forward(ctx, kept: Tensor) -> Tensor:
        blocks = kept.new_empty(*kept.shape[:-1], kept.shape[-1] + 1)
        runs = _runs(blocks)
        runs.copy_(kept.reshape(runs.shape))
        blocks.diagonal(dim1=-2, dim2=-1).zero_()
        return blocks

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return _WithoutDiagonal.apply(gradient)


def _runs(blocks: Tensor) -> Tensor:
    """What is off the diagonals of contiguous blocks, as a view: (…, n, n) → (…, n − 1, n) in the same order."""
    # After its first entry, a flat n×n matrix is n − 1 runs of n entries to keep and one of the diagonal.
    size = blocks.shape[-1]
    shape = (*blocks.shape[:-2], size - 1, size)
    return blocks.as_strided(shape, (*blocks.stride()[:-2], size + 1, 1), blocks.storage_offset() + 1)
