"""Where a checkout and its Python may lie: Snakemake cannot run its scripts in every folder."""

import os
import shlex
import sys
from pathlib import Path

from trueneg.errors import UserError


def require_plain_path(checkout: Path) -> None:
    """Raise a :class:`UserError` if the path has braces, which Snakemake would take for
    placeholders in the paths of scripts.
    """
    if set("{}") & set(str(checkout)):
        raise UserError(
            f"The checkout is in {checkout}; Snakemake cannot run in a folder with braces. Rename"
            " it or move it."
        )


def quote_python() -> None:
    """Quote the path of Python: Snakemake runs scripts with it as part of a shell command, without
    quotes (https://github.com/snakemake/snakemake/issues/2645).
    """
    if os.path.exists(sys.executable):  # otherwise quoted already, by another module
        sys.executable = shlex.quote(sys.executable)
