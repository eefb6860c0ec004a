"""The inputs of a run on pairs, by their checksums."""

import hashlib
from collections.abc import Mapping
from typing import Any

from trueneg.data.pairs.pair_source import PairSource, probability_name
from trueneg.data.texts.text_source import TextSource
from trueneg.specs.guides.base import LANGUAGE_MODEL
from trueneg.store.identity import model_of
from trueneg.store.run_files import run_checksums


def data_checksum(
    source: PairSource | TextSource, settings: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return a checksum of a run's inputs: the source of pairs or texts, class probabilities,
    language model and weight files.
    """
    objective = settings["objective"]
    values = (objective.get(key) for key in ("class_probability", "switched_off_by"))
    named = [probability_name(value) for value in values if isinstance(value, str | Mapping)]
    named = [name for name in named if name in source.class_probabilities]
    parts = [
        source.checksum,
        *(
            f"{name} {source.probability_checksum(name, objective.get('a') is not None)}"
            for name in named
        ),
    ]
    model: Any = model_of(settings, "objective")
    guide = model.guide_of(objective)
    if guide is not None and guide[0].NEEDS == LANGUAGE_MODEL:
        parts.append(f"embeddings {(source.language_model or {}).get('checksum')}")
    parts += [f"{what} {checksum}" for what, checksum in run_checksums(settings).items()]
    return parts[0] if len(parts) == 1 else hashlib.sha256(" ".join(parts).encode()).hexdigest()
