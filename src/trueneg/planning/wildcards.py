"""Which values a wildcard may have."""

import re
from collections.abc import Iterable


def any_of(names: Iterable[str]) -> str:
    """Return a constraint for the given names; without names, it matches nothing.

    Example:
        >>> any_of(["digits", "cifar10.1"]), any_of([])
        ('cifar10\\\\.1|digits', '(?!)')
    """
    return "|".join(map(re.escape, sorted(names))) or "(?!)"
