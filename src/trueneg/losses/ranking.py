"""The order of each row's values, the costly part of a loss that weighs negatives by their rank."""

import torch
from torch import Tensor
from torch.nn import functional

# One line of integers is sorted by their digits, in a quarter of the time that rows take, where torch has FBGEMM (on
# an x86 CPU) and the line is long enough. So some rows at a time are put into a line, which is better short: it stays
# in the cache. Several threads would wait for each other at every digit, and on a busy machine for long.
SHORTEST_LINE, LINE = 2**15, 2**16
LONGEST_ROW = 2**15  # in longer ones too many values share their leading digits
KEY_BITS = 30


def ascending(values: Tensor) -> tuple[Tensor, Tensor]:
    """Each row in ascending order, and which column each value comes from; no gradient.

    Args:
        values: (A, N).

    Example:
        >>> ordered, columns = ascending(torch.tensor([[0.5, -1.0, 0.0]]))
        >>> ordered.tolist(), columns.tolist()
        ([[-1.0, 0.0, 0.5]], [[1, 2, 0]])
    """
    values = values.detach()
    if values.device.type != "cpu" or values.dtype not in (torch.float32, torch.float64):
        return values.sort(dim=-1)
    if not _by_digits(values):
        columns = _order_bits(values).argsort(dim=-1)
        return values.gather(-1, columns), columns
    columns = _roughly_ordered_columns(values)
    ordered = values.gather(-1, columns)
    _swap_neighbours(ordered, columns)
    rows = (ordered[:, 1:] < ordered[:, :-1]).any(-1).nonzero().squeeze(-1)
    if len(rows):
        columns[rows] = _order_bits(values[rows]).argsort(dim=-1)
        ordered[rows] = values[rows].gather(-1, columns[rows])
    return ordered, columns


def of_last_among_equals(values: Tensor, ordered: Tensor) -> Tensor:
    """Values by rank, such that equal entries of an ascending row share the value of the last of them.

    This makes the share of entries *at most* an entry (equation 1) of its rank.

    Args:
        values: (A, N), a value for each rank.
        ordered: (A, N), ascending in each row.

    Example:
        >>> of_last_among_equals(torch.tensor([[0.25, 0.5, 0.75, 1.0]]), torch.tensor([[1, 1, 2, 3]])).tolist()
        [[0.5, 0.5, 0.75, 1.0]]
    """
    if ordered.device.type != "cpu":  # no list of ties: its length would be waited for
        return values.gather(-1, torch.searchsorted(ordered, ordered, right=True) - 1)
    equal_next = ordered[:, 1:] == ordered[:, :-1]
    if not equal_next.any():
        return values
    values = values.clone(memory_format=torch.contiguous_format)
    tied = functional.pad(equal_next, (0, 1)).flatten().nonzero().squeeze(-1)
    # Ties are few. A run of them ends after the last place whose successor is not tied too.
    ends_run = functional.pad(tied[1:] != tied[:-1] + 1, (0, 1), value=True)
    last = tied.masked_fill(~ends_run, values.numel()).flip(0).cummin(0).values.flip(0) + 1
    values.view(-1)[tied] = values.view(-1)[last]
    return values


def _by_digits(values: Tensor) -> bool:
    return (
        values.dtype == torch.float32
        and values.numel() >= SHORTEST_LINE
        and values.shape[-1] <= LONGEST_ROW
        and torch.get_num_threads() == 1
        and torch.backends.cpu.get_cpu_capability().startswith("AVX")
    )


def _roughly_ordered_columns(values: Tensor) -> Tensor:
    """The order of the values' leading digits, in fixed point: wrong only for values that share them."""
    rows, count = values.shape
    together = min(rows, -(-LINE // count))
    row_bits = (together - 1).bit_length()
    largest = 2 ** (KEY_BITS - row_bits) - 1
    low, high = values.aminmax()
    # Whatever is not a number, or too large for an integer, ends up in its own row at least.
    key = ((values - low) * (largest / (high - low))).int().clamp_(0, largest)
    row = torch.arange(rows, dtype=torch.int32) % together
    key += (row << (KEY_BITS - row_bits))[:, None]
    columns = torch.empty(rows, count, dtype=torch.int64)
    for lines, places in zip(key.split(together), columns.split(together), strict=True):
        torch.sort(lines.flatten(), out=(torch.empty_like(lines).flatten(), places.view(-1)))
    return columns.sub_((row * count)[:, None])


def _swap_neighbours(ordered: Tensor, columns: Tensor) -> None:
    """Put neighbours in order, in place; of a longer run in disorder only the first two."""
    wrong = functional.pad(ordered[:, 1:] < ordered[:, :-1], (0, 1)).flatten().nonzero().squeeze(-1)
    first = wrong[wrong.diff(prepend=wrong.new_tensor([-2])) != 1]
    for line in (ordered.view(-1), columns.view(-1)):
        line[first], line[first + 1] = line[first + 1], line[first]


def _order_bits(values: Tensor) -> Tensor:
    """Integers in the order of floating numbers, which a CPU sorts in 60 % of the time."""
    # The bits of positive numbers are ordered as they are, those of negative numbers in reverse (all but the
    # sign are flipped). Adding 0 makes −0 a 0.
    bits = (values + 0.0).view(torch.int32 if values.dtype == torch.float32 else torch.int64)
    return bits ^ ((bits >> (bits.element_size() * 8 - 1)) & torch.iinfo(bits.dtype).max)
