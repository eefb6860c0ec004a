"""Several mistakes of a user's files, told at once."""

from collections.abc import Sequence

from trueneg.errors import UserError

TOLD = 10


def refuse(mistakes: Sequence[str]) -> None:
    """Refuse what has mistakes: a sentence each, the first ten of them, and how many more there are.

    Args:
        mistakes: what is wrong, each a whole sentence; none: nothing happens.

    Raises:
        UserError: if there is any.

    Example:
        >>> refuse([])
        >>> refuse([f"a.csv, line {line}: image is empty, expected a file name." for line in range(2, 14)])
        Traceback (most recent call last):
        ...
        trueneg.errors.UserError: a.csv, line 2: image is empty, expected a file name.
        ...
        … and 2 more of the kind.
    """
    if mistakes:
        more = [f"… and {len(mistakes) - TOLD:,} more of the kind."] if len(mistakes) > TOLD else []
        raise UserError("\n".join([*mistakes[:TOLD], *more]))
