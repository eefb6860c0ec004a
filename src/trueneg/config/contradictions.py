"""Checks across the settings of a configuration: references to unknown names, and settings that
exclude each other.
"""

import pkgutil
from collections.abc import Iterator

from trueneg.config.configuration import Configuration

# Folders under results/ that do not belong to a study.
RESERVED_NAMES = (
    "runs",
    "sources",
    "pairs",
    "texts",
    "benchmarks",
    "language_models",
    "logs",
    "timings",
)


def contradictions(configuration: Configuration) -> Iterator[str]:
    """Yield one sentence per contradiction, without the full stop."""
    texts = configuration.scored
    for name, study in configuration.studies.items():
        if name in RESERVED_NAMES:
            yield (
                f"{name} is not allowed as the name of a study, because results/{name} is reserved;"
                " choose another name"
            )
        if study.CHECKED_BY:
            found = pkgutil.resolve_name(study.CHECKED_BY)(study, texts)
            yield from (f"{name}.{mistake}" for mistake in found)
