"""Studies with a changed key, and the sentences that reject a configuration."""

import copy
from typing import Any

from trueneg.config.reading import load_configuration
from trueneg.errors import UserError


def with_key(study: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a study with the key at a dotted path set to `value`; missing sections are
    created.
    """
    study = copy.deepcopy(study)
    section = study
    *sections, key = path.split(".")
    for name in sections:
        section = section.setdefault(name, {})
    section[key] = value
    return study


def mistakes(**studies: Any) -> list[str]:
    """The sentences that reject a configuration, without the name of its file; empty if it is
    valid.
    """
    try:
        load_configuration(studies, "mine.yaml")
    except UserError as error:
        sentences = str(error).splitlines()
        assert all(
            sentence.startswith("mine.yaml: ") and sentence.endswith((".", "?"))
            for sentence in sentences
        )
        return [sentence.removeprefix("mine.yaml: ") for sentence in sentences]
    return []
