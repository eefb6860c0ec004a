"""Errors while reading trained weights, as a sentence."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError

import torch

from trueneg.errors import UserError


@contextlib.contextmanager
def refuse_unless_whole(name: str | Path, what: str, remedy: str) -> Iterator[None]:
    """Raise a :class:`UserError` for any error in the block but a lack of memory: a damaged file can raise nearly anything."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, UserError):
        raise
    except Exception as error:
        # torch's message about a pickle that holds more than tensors advises to load it all the same.
        reason = "" if isinstance(error, UnpicklingError) else " ".join(str(error).split())[:300]
        raise UserError(f"{name}: is not {what} ({reason or type(error).__name__}). {remedy}.") from error
