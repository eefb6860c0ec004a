"""A lack of memory, told as what to change."""

import contextlib
import re
from collections.abc import Iterator

from trueneg.errors import UserError

# What torch's allocator says of the CPU's memory, and of sizes that no memory has.
_TOLD = re.compile(
    "can't allocate memory|not enough memory|Storage size calculation overflowed|numel: integer multiplication overflow"
    "|tensor with negative dimension"
)


@contextlib.contextmanager
def memory_told(what: str, remedy: str) -> Iterator[None]:
    """An end of the memory in the block, the device's or the machine's, as a sentence.

    Args:
        what: what was computed.
        remedy: what to change, as a sentence.

    Raises:
        UserError: naming both.
    """
    try:
        yield
    except Exception as error:
        if not lacks_memory(error):
            raise
        asked = re.search(r"[Tt]ried to allocate ([\d.]+ \w+)", str(error))
        amount = f" (it was to get {asked[1].rstrip('.')} more)" if asked else ""
        raise UserError(f"{what}: the memory does not suffice{amount}. {remedy}") from error


def lacks_memory(error: Exception) -> bool:
    """Whether an error tells of a lack of memory. torch's own is known by its name: most jobs do not import torch."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and _TOLD.search(str(error)) is not None


def smaller_batch(batch_size: int, chunks: int | None = None) -> str:
    """The remedy of a training.

    Args:
        batch_size: as it is.
        chunks: parts that a batch is encoded in; None: there is no such setting.

    Example:
        >>> smaller_batch(512)
        'Lower training.batch_size from 512 to 256, give the job more memory, or take a smaller encoder or resolution.'
        >>> smaller_batch(64, chunks=2)
        'Raise training.chunks from 2 to 4, which changes no result, or lower training.batch_size from 64 to 32.'
    """
    lower = f"ower training.batch_size from {batch_size} to {max(batch_size // 2, 2)}"
    if chunks is not None and 2 * chunks <= batch_size:
        return f"Raise training.chunks from {chunks} to {2 * chunks}, which changes no result, or l{lower}."
    return f"L{lower}, give the job more memory, or take a smaller encoder or resolution."
