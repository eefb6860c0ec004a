"""Convert errors raised while reading trained weights into readable messages."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from pickle import UnpicklingError

import torch

from trueneg.errors import UserError


@contextlib.contextmanager
def refuse_unless_whole(name: str | Path, what: str, remedy: str) -> Iterator[None]:
    """Raise a :class:`UserError` for any error except running out of memory; a damaged file can raise almost anything."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError, UserError):
        raise
    except Exception as error:
        # For a pickle with more than tensors, torch's message recommends loading it anyway, so leave it out.
        reason = "" if isinstance(error, UnpicklingError) else " ".join(str(error).split())[:300]
        raise UserError(f"{name} is not {what} ({reason or type(error).__name__}). {remedy}.") from error


@contextlib.contextmanager
def explain_download(weights: str, address: str) -> Iterator[None]:
    """Raise a :class:`UserError` that names the address if weights cannot be downloaded."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{weights}: cannot be downloaded from {address} ({reason}). Download the file on a machine with internet access "
            "and set `weights` to its path."
        ) from error
