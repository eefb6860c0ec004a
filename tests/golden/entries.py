"""All entries, by name."""

import functools
import itertools

from tests.golden import comparisons, evaluations, simulations, sources, texts, trainings
from tests.golden.golden import Entry

MODULES = (trainings, evaluations, texts, sources, simulations, comparisons)


@functools.cache
def all_entries() -> dict[str, Entry]:
    """Return every entry by its name; no two have the same."""
    found = list(itertools.chain.from_iterable(module.entries() for module in MODULES))
    entries = dict(found)
    if len(entries) < len(found):
        names = [name for name, _ in found]
        raise ValueError(f"two golden entries are named {next(name for name in names if names.count(name) > 1)}")
    return entries
