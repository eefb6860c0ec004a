"""Report files that cannot be read as user errors."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError

from trueneg.errors import UserError, is_out_of_memory

RUN_STEP = "Run the step that writes it."


@contextlib.contextmanager
def reading(
    path: str | Path, expected: str, remedy: str, *, missing: str | None = None
) -> Iterator[None]:
    """Turn any exception in the block, which reads a file, into a user error; a damaged file can
    raise almost anything.

    User errors and running out of memory are passed through.

    Args:
        path: the file, or the name of a model.
        expected: description of the content, with its article.
        remedy: a sentence that tells the user how to fix a damaged file.
        missing: such a sentence for a file that does not exist; None: `remedy`.

    Raises:
        UserError: if the file does not exist, or the block fails to read it.

    Example:
        >>> with reading("a.json", "JSON", "Copy it again."):
        ...     int("1e")
        Traceback (most recent call last):
        ...
        trueneg.errors.UserError: a.json: cannot be read as JSON (ValueError: ...). Copy it again.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, UserError) or is_out_of_memory(error):
            raise
        # subclasses: the hub's errors
        if type(error) is FileNotFoundError and not Path(path).exists():
            raise UserError(
                f"{path}: does not exist; expected {expected}. {missing or remedy}"
            ) from error
        remedy = (
            "Give yourself permission to read it." if isinstance(error, PermissionError) else remedy
        )
        raise UserError(
            f"{path}: cannot be read as {expected} ({reason(error)}). {remedy}"
        ) from error


def reason(error: BaseException) -> str:
    """Return the type and message of an exception on one short line."""
    # For a pickle with more than tensors, torch's message recommends loading it anyway, so leave it
    # out.
    message = "" if isinstance(error, UnpicklingError) else f": {error}"
    return " ".join(f"{type(error).__name__}{message}".split())[:300].rstrip(".: ")
