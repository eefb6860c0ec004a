"""All entries, by name."""

import functools
import itertools
from collections import Counter

from tests.golden import comparisons, evaluations, simulations, sources, texts, trainings
from tests.golden.golden import Entry

MODULES = (trainings, evaluations, texts, sources, simulations, comparisons)


@functools.cache
def all_entries() -> dict[str, Entry]:
    """Return every entry by its unique name."""
    named = list(itertools.chain.from_iterable(module.entries() for module in MODULES))
    repeated = [name for name, times in Counter(name for name, _ in named).items() if times > 1]
    if repeated:
        raise ValueError(f"golden entries share names: {', '.join(repeated)}")
    return dict(named)
