"""A cache shared between results folders for expensive intermediates: sentences, likelihoods and decoded images.

The environment variable ``TRUENEG_CACHE`` names it, as it belongs to a machine or a laboratory, not to a study. Entries are found
by their content (text, model weights, image files, code), so any studies can use it at the same time, and it can be
removed at any time. Restricted data never go there.
"""

import os
from pathlib import Path

from trueneg.errors import UserError

VARIABLE = "TRUENEG_CACHE"


def cache_folder(own: str | Path, kind: str, *, restricted: bool) -> Path:
    """The folder of content-addressed intermediates: `kind` in the shared cache, or `own` without one or for restricted data.

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
