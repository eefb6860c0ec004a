"""A folder in which several results folders share what is dear to make: sentences, likelihoods and decoded images.

The variable ``TRUENEG_CACHE`` names it, for it belongs to a machine or a laboratory and not to a study. What lies there is known
by its content (the text, the model's weights, the images' files, the code that made it), so studies of any settings may use it at
the same time, and it may be removed at any time. Restricted data never go there.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from trueneg.errors import UserError
from trueneg.io.files import writable

VARIABLE = "TRUENEG_CACHE"


def cache_folder(own: str | Path, kind: str, *, restricted: bool) -> Path:
    """Where content-addressed intermediate results lie.

    Args:
        own: the folder under the results; it is taken if the variable is not set, or the data are restricted.
        kind: of the results, the name of their part of the shared folder; it holds what else their keys do not tell.
        restricted: whether they are made from data that others may not see.

    Raises:
        UserError: if the variable names something else than a folder that can be written.
    """
    shared = os.environ.get(VARIABLE)
    if not shared or restricted:
        return Path(own)
    folder = Path(shared)
    if not folder.is_absolute():
        raise UserError(f"{VARIABLE}: is {shared!r}, expected an absolute path, as jobs may start elsewhere.")
    try:
        with writable(folder / kind):
            (folder / kind).mkdir(parents=True, exist_ok=True)
    except OSError as error:  # a file is in the way, or it is no place for folders
        reason = "it, or a part of it, is a file" if isinstance(error, (FileExistsError, NotADirectoryError)) else error.strerror
        raise UserError(
            f"{VARIABLE}: {folder / kind} cannot be made a folder ({reason}); name another place, or unset the variable."
        ) from error
    return folder / kind


@contextlib.contextmanager
def one_at_a_time(folder: Path) -> Iterator[None]:
    """Wait until no other process is in such a block for the same folder; the kernel frees it when a process dies.

    Args:
        folder: made if it is not there.

    Raises:
        UserError: if the file system does not keep locks.
    """
    with writable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            raise UserError(
                f"{folder}: its file system keeps no locks ({error.strerror}); let {VARIABLE} name a folder on one that does."
            ) from error
        yield
