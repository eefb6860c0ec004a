"""Write the JSON schema and the reference page of the configuration from the typed model."""

import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from trueneg.config.configuration import ALL_RESOURCES, GLOBAL_KEYS, KINDS, Configuration
from trueneg.specs.resources import Resources
from trueneg.specs.settings import Settings, is_technical, models_within, tag_of

HEADER = """# Configuration

A configuration file holds studies by name; several files may be given. Where a setting is marked ↔, a list of values is a sweep.
Settings in *italics* say where or how fast to compute; they do not enter a run's identity. `make reference` writes this page.
"""


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file, for editors: ``# yaml-language-server: $schema=…/config/schema.json``."""
    schema = Configuration.model_json_schema()
    properties = schema.pop("properties")
    schema["properties"] = {key: properties[key] for key in GLOBAL_KEYS}
    schema["additionalProperties"] = {"anyOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in KINDS.values()]}
    schema.pop("required", None)
    return schema


def reference_page() -> str:
    """Return the reference page in Markdown, with one section per model and one row per key."""
    models: dict[type[Settings], tuple[str, str]] = {}
    for kind, study in KINDS.items():
        for model, title, tag in _models(study, f"Study of kind: {kind}"):
            models.setdefault(model, (title, tag))
    resources = [f"| {name} | {one.mem_mb} | {one.runtime} | {one.threads} |" for name, one in ALL_RESOURCES.items()]
    sections = [
        _section("Keys beside the studies", {key: Configuration.model_fields[key] for key in GLOBAL_KEYS}),
        _section("resources", Resources.model_fields, Resources.__doc__),
        "\n".join(["| rule | mem_mb | runtime | threads |", "|---|---|---|---|", *resources, ""]),
    ]
    for model, (title, tag) in models.items():
        fields = {key: field for key, field in model.model_fields.items() if key != tag}
        sections.append(_section(title, fields, model.__doc__))
    return "\n".join([HEADER, *sections])


def _models(model: type[Settings], title: str, prefix: str = "", tag: str = "") -> Iterator[tuple[type[Settings], str, str]]:
    """Yield a model, its title and its discriminator key, then its nested models; `prefix` precedes their keys."""
    yield model, title, tag
    for key, field in model.model_fields.items():
        inside = models_within(field.annotation)
        for inner in inside:
            own, values = (tag_of(inner) if len(inside) > 1 else None) or ("", ())
            place = f"{prefix}{key} with {own}: {' or '.join(values)}" if own else prefix + key
            yield from _models(inner, place, f"{place}.", own)


def _section(title: str, fields: Mapping[str, FieldInfo], doc: str | None = None) -> str:
    head = ["| key | default | meaning |", "|---|---|---|"] if fields else []
    return "\n".join([f"## {title}\n", *([f"{doc}\n"] if doc else []), *head, *itertools.starmap(_row, fields.items()), ""])


def _row(key: str, field: FieldInfo) -> str:
    shown = f"*{key}*" if is_technical(field) else key
    sweep = " ↔" if "Tag(tag='sweep')" in repr(field.annotation) + repr(field.metadata) else ""
    default = field.get_default(call_default_factory=True)
    if default is PydanticUndefined:
        written = "required"
    elif isinstance(default, Settings | dict):
        written = "see below"
    else:
        written = f"`{json.dumps(default)}`"
    return f"| {shown}{sweep} | {written} | {field.description or 'see below'} |".replace("\n", " ")


if __name__ == "__main__":
    schema_path, page_path = map(Path, sys.argv[1:])
    schema_path.write_text(json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n")
    page_path.write_text(reference_page())
