"""A cache shared between results folders for expensive intermediates: sentences, likelihoods and decoded images.

The environment variable ``TRUENEG_CACHE`` sets its path, because the cache belongs to a machine or a research group, not to a
study. Entries are content-addressed (text, model weights, image files, code), so any number of studies can use the cache at the
same time, and it can be deleted at any time. Restricted data are never stored there.
"""

import os
from pathlib import Path

from trueneg.errors import UserError

VARIABLE = "TRUENEG_CACHE"


def cache_folder(local: str | Path, kind: str, *, restricted: bool) -> Path:
    """Return the folder for intermediates: `kind` in the shared cache, or `local` if there is none or the data are restricted.

    Raises:
        UserError: if the variable is not the absolute path of a writable folder.
    """
    shared = os.environ.get(VARIABLE)
    if not shared or restricted:
        return Path(local)
    folder = Path(shared, kind)
    if not folder.is_absolute():
        raise UserError(f"{VARIABLE} is {shared!r}; expected an absolute path, because jobs may start in another folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{VARIABLE}: cannot create the folder {folder} ({error.strerror}). Set {VARIABLE} to another folder, or unset it."
        ) from error
    return folder
