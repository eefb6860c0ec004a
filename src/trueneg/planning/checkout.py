"""Where a checkout may lie: Snakemake cannot run its scripts in every folder."""

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
