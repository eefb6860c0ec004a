"""The libraries of towers (extra: towers), and weights that installed packages ship (extra:
pretrained).
"""

import difflib
import importlib
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from trueneg.errors import UserError


def library(name: str) -> ModuleType:
    """Import a tower's library.

    Raises:
        UserError: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(
            f"The library {name} is missing ({error}); install it with: pip install"
            " 'trueneg[towers]'."
        ) from error


def unknown_model(model: str, library_name: str, names: Iterable[str]) -> UserError:
    """Return the error for a name that a library does not know, with the nearest of its names."""
    nearest = difflib.get_close_matches(model, list(names), n=3, cutoff=0.3)
    return UserError(
        f"{model} is not a model of {library_name}; expected one of its names, such as"
        f" {', '.join(nearest)}."
    )


def packaged_file(package: str, pattern: str) -> Path | None:
    """Return the file of an installed package that matches a pattern; None without the package,
    which is not imported.
    """
    folders = getattr(find_spec(package), "submodule_search_locations", None) or ()
    return next((path for folder in folders for path in sorted(Path(folder).glob(pattern))), None)
