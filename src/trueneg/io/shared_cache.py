"""A cache shared between results folders for expensive intermediates: sentences, likelihoods and decoded images.

The environment variable ``TRUENEG_CACHE`` sets its path, because the cache belongs to a machine or a laboratory, not to a study.
Entries are content-addressed (text, model weights, image files, code), so any number of studies can use the cache at the same
time, and it can be deleted at any time. Restricted data are never stored there.
"""

import os
from pathlib import Path

from trueneg.errors import UserError

VARIABLE = "TRUENEG_CACHE"


def cache_folder(own: str | Path, kind: str, *, restricted: bool) -> Path:
    """Return the folder for intermediates: `kind` in the shared cache, or `own` without a cache or for restricted data.

    Raises:
        UserError: if the variable is not the absolute path of a writable folder.
    """
    shared = os.environ.get(VARIABLE)
    if not shared or restricted:
        return Path(own)
    folder = Path(shared, kind)
    if not folder.is_absolute():
        raise UserError(f"{VARIABLE}: is {shared!r}, expected an absolute path, as jobs may start elsewhere.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{VARIABLE}: {folder} cannot be made a folder ({error.strerror}); name another place, or unset the variable."
        ) from error
    return folder
