"""Which columns of a matrix of logits are an anchor's negatives: all but its own sample's."""

from collections.abc import Iterator

import torch
from torch import Tensor


def without_own(block: Tensor, own: int = 0, kinds: int = 1) -> Tensor:
    """Drop each row's own sample: (S, c, K·G) → (S, c, K·(G − 1)), the others in their order.

    Args:
        block: rows are anchors, columns K kinds (views) of all G samples; row i belongs to sample ``own + i``.
        own: the sample of the first row.
        kinds: K.

    Example:
        >>> without_own(torch.arange(9).view(1, 3, 3)).tolist()
        [[[1, 2], [3, 5], [6, 7]]]
        >>> without_own(torch.arange(12).view(1, 2, 6), own=1, kinds=2).tolist()
        [[[0, 2, 3, 5], [6, 7, 9, 10]]]
    """
    return _WithoutOwn.apply(block, own, kinds)


class _WithoutOwn(torch.autograd.Function):
    """Its own function, as the gradient of plain slices fills and copies the matrix several times."""

    @staticmethod
    def forward(ctx, block: Tensor, own: int, kinds: int) -> Tensor:
        ctx.place = own, kinds
        kept = block.new_empty(*block.shape[:-1], block.shape[-1] - kinds)
        for whole, part in _runs(block.contiguous(), kept, own, kinds):
            part.copy_(whole)
        return kept

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _WithZeroOwn.apply(gradient, *ctx.place), None, None


class _WithZeroOwn(torch.autograd.Function):
    """The transpose of :class:`_WithoutOwn`: zeros where it drops."""

    @staticmethod
    def forward(ctx, kept: Tensor, own: int, kinds: int) -> Tensor:
        ctx.place = own, kinds
        block = kept.new_empty(*kept.shape[:-1], kept.shape[-1] + kinds)
        for whole, part in _runs(block, kept.contiguous(), own, kinds):
            whole.copy_(part)
        sides, rows, columns = block.shape
        dropped = (sides, rows, kinds), (rows * columns, columns + 1, columns // kinds)
        block.as_strided(*dropped, block.storage_offset() + own).zero_()
        return block

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _WithoutOwn.apply(gradient, *ctx.place), None, None


def negatives_of_pairs(matrix: Tensor, transposed: tuple[bool, ...]) -> tuple[Tensor, Tensor]:
    """Anchors with their negatives and positives, of a matrix with the positives on its diagonal.

    Args:
        matrix: (B, B).
        transposed: for each of S kinds of anchors, whether they are the columns rather than the rows.

    Returns:
        (S·B, B − 1), the others in their order, and (S·B,).

    Example:
        >>> negatives_of_pairs(torch.arange(4).view(2, 2), (False, True))[0].tolist()
        [[1], [2], [2], [1]]
    """
    return _OfPairs.apply(matrix, transposed)


class _OfPairs(torch.autograd.Function):
    """Columns are copied to rows first: a strided pass over them takes four times as long."""

    @staticmethod
    def forward(ctx, matrix: Tensor, transposed: tuple[bool, ...]) -> tuple[Tensor, Tensor]:
        ctx.transposed, sides, count = transposed, len(transposed), matrix.shape[0]
        negatives = matrix.new_empty(sides, count - 1, count)
        for kept, turned in zip(negatives.unbind(), transposed, strict=True):
            kept.copy_(_off_diagonal((matrix.mT if turned else matrix).contiguous()))
        return negatives.view(sides * count, count - 1), torch.cat([matrix.diagonal()] * sides)

    @staticmethod
    def backward(ctx, of_negatives: Tensor, of_positive: Tensor) -> tuple[Tensor, None]:
        return _ToPairs.apply(of_negatives, of_positive, ctx.transposed), None


class _ToPairs(torch.autograd.Function):
    """The transpose of :class:`_OfPairs`."""

    @staticmethod
    def forward(ctx, of_negatives: Tensor, of_positive: Tensor, transposed: tuple[bool, ...]) -> Tensor:
        ctx.transposed, sides, count = transposed, len(transposed), of_negatives.shape[-1] + 1
        total = None
        for kept, turned in zip(of_negatives.reshape(sides, count - 1, count).unbind(), transposed, strict=True):
            block = kept.new_empty(count, count)
            _off_diagonal(block).copy_(kept)
            block = block.mT.contiguous() if turned else block
            total = block if total is None else total.add_(block)
        total.diagonal().copy_(of_positive.reshape(sides, count).sum(0))
        return total

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        return *_OfPairs.apply(gradient, ctx.transposed), None


def _off_diagonal(matrix: Tensor) -> Tensor:
    """What is off the diagonal of a contiguous matrix, in its order, as a view: (n, n) → (n − 1, n)."""
    # After its first entry, a flat matrix is n − 1 runs of n entries to keep and one of the diagonal.
    size = matrix.shape[0]
    return matrix.as_strided((size - 1, size), (size + 1, 1), matrix.storage_offset() + 1)


def _runs(block: Tensor, kept: Tensor, own: int, kinds: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The same numbers as views of both contiguous tensors; together they are all of ``kept``.

    Seen as one line of numbers, the block's rows are runs to keep with one number to drop between them: G − 1
    numbers between two of a row's own, G from a row's last own to the next row's first, and what is before
    the first and after the last.
    """
    sides, rows, columns = block.shape
    samples, step = columns // kinds, columns + 1  # step: from one row's own to the next row's
    last_own, after = own + (kinds - 1) * samples, samples - rows - own

    def views(shape: tuple[int, ...], steps: tuple[int, ...], place: int, dropped: int, dropped_by_step: tuple[int, ...]):
        """Of the block, and of ``kept``, which has less by what was dropped before a place, or with each step."""
        fewer = tuple(map(int.__sub__, steps, dropped_by_step))
        return (
            block.as_strided((sides, *shape), (rows * columns, *steps), block.storage_offset() + place),
            kept.as_strided((sides, *shape), (rows * (columns - kinds), *fewer), kept.storage_offset() + place - dropped),
        )

    if own:
        yield views((own,), (1,), 0, 0, (0,))
    if kinds > 1:
        yield views((rows, kinds - 1, samples - 1), (step, samples, 1), own + 1, 1, (kinds, 1, 0))
    if rows > 1:
        yield views((rows - 1, samples), (step, 1), last_own + 1, kinds, (kinds, 0))
    if after:
        yield views((after,), (1,), rows * columns - after, rows * kinds, (0,))
