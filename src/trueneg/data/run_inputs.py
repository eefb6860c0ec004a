"""The inputs of a run, by their checksums."""

from collections.abc import Mapping
from typing import Any

from trueneg.data.pairs.pair_source import probability_name
from trueneg.specs.guides.base import LANGUAGE_MODEL
from trueneg.specs.sections import Section
from trueneg.store.identity import model_of
from trueneg.store.run_files import run_checksums, with_further


def data_checksum(source: Any, settings: Mapping[str, Section]) -> str:
    """Return a checksum of a run's inputs: its source, and the class probabilities, language model,
    and files of features and weights that its settings name.
    """
    objective = settings["objective"]
    values = (objective.get(key) for key in ("class_probability", "switched_off_by"))
    named = (probability_name(value) for value in values if isinstance(value, str | Mapping))
    probabilities = {
        name: source.probability_checksum(name, objective.get("a") is not None)
        for name in named
        if name in source.class_probabilities
    }
    embeddings: dict[str, Any] = {}
    model: Any = model_of(settings, "objective")
    guide = model.guide_of(objective)
    if guide is not None and guide[0].NEEDS == LANGUAGE_MODEL:
        embeddings["embeddings"] = (source.language_model or {}).get("checksum")
    return with_further(source.checksum, probabilities, embeddings, run_checksums(settings))
