"""Read and check configuration files; all mistakes are reported at once, one sentence each."""

import difflib
import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from trueneg.config.configuration import Configuration
from trueneg.config.contradictions import contradictions
from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.legible import escape_control_characters
from trueneg.specs.settings import models_within, tag_of

# Expected values by pydantic error type, where pydantic's own wording does not help the author of a
# YAML file.
EXPECTED = dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "a mapping") | {
    "string_pattern_mismatch": (
        "a name that starts with a letter and contains only letters, digits and _ . + -"
    ),
}
MERGE = "tag:yaml.org,2002:merge"


class Loader(yaml.SafeLoader):
    """Reads plain values; a key that a mapping has twice is refused, where PyYAML keeps the last,
    and ``<<`` merges as YAML defines it, which PyYAML 6.0.4 does not.
    """

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        """Compose a mapping as it is written.

        Raises:
            UserError: if a key occurs twice.
        """
        mapping = super().compose_mapping_node(anchor)
        lines = dict[tuple[str, str], int]()
        for key, _ in mapping.value:
            known = key.tag, str(key.value)
            line = key.start_mark.line + 1
            if known in lines and key.tag != MERGE:
                raise UserError(
                    f"{key.start_mark.name}: {key.value} in line {line} is already a key of the"
                    f" same mapping, in line {lines[known]}; keep one of them, or rename it."
                )
            lines[known] = line
        return mapping

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge other mappings: own keys take precedence, then those of earlier mappings."""
        pairs = dict[tuple[str, str], tuple[yaml.Node, yaml.Node]]()
        for key, value in node.value:
            if key.tag != MERGE:
                continue
            for other in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(other, yaml.MappingNode):
                    raise yaml.MarkedYAMLError(
                        problem=f"<< is {other.value}; expected a mapping, or a list of them",
                        problem_mark=other.start_mark,
                    )
                self.flatten_mapping(other)
                for pair in other.value:
                    pairs.setdefault((pair[0].tag, str(pair[0].value)), pair)
        pairs |= {(key.tag, str(key.value)): (key, value) for key, value in node.value}
        node.value = [pair for (tag, _), pair in pairs.items() if tag != MERGE]


def load_configuration(raw: Mapping[str, Any], where: str) -> Configuration:
    """Validate a configuration as read from YAML or JSON, and report all mistakes at once.

    Args:
        raw: mapping from study names to studies, plus ``resources``.
        where: name of the configuration in messages, such as the file's path.

    Raises:
        UserError: with one sentence per mistake.
    """
    studies = {name: study for name, study in raw.items() if name != "resources"}
    if not studies:
        raise UserError(
            f"{where}: no studies found; expected a mapping from study names to studies."
        )
    try:
        configuration = Configuration.model_validate(
            {"studies": studies, "resources": raw.get("resources", {})}
        )
        mistakes = [f"{mistake}." for mistake in contradictions(configuration)]
    except ValidationError as error:
        mistakes = _joined([_sentence(mistake, raw) for mistake in error.errors(include_url=False)])
    if mistakes:
        raise UserError("\n".join(f"{where}: {mistake}" for mistake in dict.fromkeys(mistakes)))
    return configuration


def read_configuration(paths: Sequence[str | Path]) -> Configuration:
    """Read configuration files with one or more studies each (:func:`merged_files`) and validate
    them.

    Raises:
        UserError: if a file is missing, is not YAML, or contains mistakes.
    """
    return load_configuration(merged_files(paths), ", ".join(map(str, paths)))


def merged_files(paths: Sequence[str | Path], *overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Read configuration files and merge them in this order, then the overrides; nothing is
    validated.

    A file that starts with ``extends: FILE`` is merged into that one first. Merging follows
    :func:`merged`.

    Raises:
        UserError: if a file is missing, is not YAML, is not a mapping, or extends itself.
    """
    return functools.reduce(merged, [*(_read(Path(path)) for path in paths), *overrides], {})


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings key by key, at every level; any other value, lists included, replaces the
    earlier one.

    ``null`` removes the value that it replaces, so the setting's default holds, or the objective or
    study is dropped.

    Example:
        >>> merged(
        ...     {"CL": {"name": "cl"}, "seeds": 1}, {"CL": None, "DCL": {"name": "dcl"}, "seeds": 8}
        ... )
        {'seeds': 8, 'DCL': {'name': 'dcl'}}
    """
    result = dict(base)
    for key, value in changes.items():
        # Snakemake's --config turns null into a string
        if value in (None, "null") and base.get(key) is not None:
            del result[key]
        elif isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            result[key] = merged(base[key], value)
        else:
            result[key] = value
    return result


def _read(path: Path, extending: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read a file and the files that it extends; `extending` are the files that led here."""
    missing = f"Correct extends in {extending[-1]}." if extending else "Check the path."
    with (
        reading(path, "a YAML file", "Correct the file.", missing=missing),
        path.open(encoding="utf-8") as file,
    ):
        raw = yaml.load(file, Loader)
    if not isinstance(raw, Mapping):
        raise UserError(
            f"{path}: found {_shown(raw)}; expected a mapping from study names to studies."
        )
    if "extends" not in raw:
        return dict(raw)
    base = raw["extends"]
    if not isinstance(base, str):
        raise UserError(
            f"{path}: extends is {_shown(base)}; expected the path of one configuration file,"
            " relative to this one."
        )
    extending = (*extending, path)
    if any((path.parent / base).resolve() == earlier.resolve() for earlier in extending):
        raise UserError(
            f"{path}: extends is {base}, which extends this file; remove one of the two lines."
        )
    return merged(
        _read(path.parent / base, extending),
        {key: value for key, value in raw.items() if key != "extends"},
    )


def _shown(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return "a list" if isinstance(value, list) else "a mapping"
    return "nothing" if value is None else repr(value)


def _joined(sentences: Sequence[str]) -> list[str]:
    """Join the sentences about one value, one per type that it may have; they differ only in what
    they expect.
    """
    expected: dict[str, list[str]] = {}
    for sentence in dict.fromkeys(sentences):
        value, separator, alternative = sentence.partition("; expected ")
        expected.setdefault(value + separator, []).append(alternative.removesuffix("."))
    return [
        f"{value}{', or '.join(alternatives)}." if alternatives[0] else value
        for value, alternatives in expected.items()
    ]


def _sentence(mistake: Mapping[str, Any], raw: Mapping[str, Any]) -> str:
    """Format one of pydantic's errors as a sentence: key, found, expected."""
    kind = mistake["type"]
    location = mistake["loc"]
    value = mistake["input"]
    context = mistake.get("ctx", {})
    key = _key(location[1:] if location[0] == "studies" else location, raw)
    if kind == "missing":
        return f"{key}.{location[-1]} is missing."
    if kind == "extra_forbidden":
        keys = _known_keys(location[:-1])
        close = difflib.get_close_matches(str(location[-1]), keys, n=1)
        hint = f"did you mean {close[0]}?" if close else f"known keys: {', '.join(keys) or 'none'}."
        return f"{key} is not a known key; {hint}"
    if kind == "value_error":
        # our own validators continue the key: ".source is …", " must set …"
        return f"{key}{context['error']}."
    expected = EXPECTED.get(kind) or re.sub(
        r"^\w+ should (be|have) | after validation", "", mistake["msg"]
    )
    if kind.startswith("union_tag"):
        tag = context["discriminator"].strip("'")
        if tag not in value:
            return f"{key}.{tag} is missing."
        key = f"{key}.{tag}"
        value = value[tag]
        expected = f"one of {context['expected_tags']}"
    expected = re.sub("^(?=greater|less)", "a number ", expected)
    return f"{key} is {_shown(value)}; expected {expected}."


def _key(location: Sequence[str | int], raw: Any) -> str:
    """Return the dotted key as the user wrote it, without pydantic's names for the branches of a
    union.
    """
    parts = []
    level = raw
    for part in location:
        if (
            part in level
            if isinstance(level, Mapping)
            else isinstance(level, list) and isinstance(part, int)
        ):
            level = level[part]
            parts.append(escape_control_characters(str(part)))
    return ".".join(parts)


def _known_keys(location: Sequence[str | int]) -> list[str]:
    """Return the keys that the model at a location accepts; a location contains keys and names of
    union branches.
    """
    models: list[Any] = [Configuration]
    # without the study's name
    for part in (*location[:1], *location[2:]) if location[:1] == ("studies",) else location:
        fields = [
            model.model_fields[part].annotation for model in models if part in model.model_fields
        ]
        branches = [model for model in models if part in tag_of(model)[1]]
        models = (
            [inner for annotation in fields for inner in models_within(annotation)]
            or branches
            or models
        )
    return list(models[0].model_fields)
