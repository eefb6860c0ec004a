"""Report out-of-memory errors with advice on what to change."""

import contextlib
from collections.abc import Iterator

from trueneg.errors import UserError, is_out_of_memory


@contextlib.contextmanager
def catch_out_of_memory(what: str, remedy: str) -> Iterator[None]:
    """Turn GPU or CPU out-of-memory errors in the block into a user error with a remedy."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise UserError(f"{what}: out of memory. {remedy}") from error


def smaller_batch(batch_size: int) -> str:
    """Return advice for a training job that runs out of memory.

    Example:
        >>> smaller_batch(64).partition(",")[0]
        'Lower training.batch_size from 64 to 32'
    """
    return (
        f"Lower training.batch_size from {batch_size} to {max(batch_size // 2, 2)}, give the job"
        " more memory, or choose a smaller encoder or resolution."
    )
