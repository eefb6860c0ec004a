"""Write the JSON schema and the reference page of the configuration from the typed model."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic_core import PydanticUndefined

from trueneg.config.configuration import ALL_RESOURCES, GLOBAL_KEYS, KINDS, Configuration
from trueneg.specs.resources import Resources
from trueneg.specs.settings import Settings, models_within

HEADER = """# Configuration

A configuration file holds studies by name; several files may be given. Where a setting is marked ↔, a list of values is a sweep.
Settings in *italics* say where or how fast to compute; they do not enter a run's identity. `make reference` writes this page.
"""


def json_schema() -> dict[str, Any]:
    """JSON schema of a configuration file, for editors: ``# yaml-language-server: $schema=…/config/schema.json``."""
    schema = Configuration.model_json_schema()
    properties = schema.pop("properties")
    schema["properties"] = {key: properties[key] for key in GLOBAL_KEYS}
    schema["additionalProperties"] = {"anyOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in KINDS.values()]}
    schema.pop("required", None)
    return schema


def reference_page() -> str:
    """Markdown: a section for every model, a row for every key."""
    seen: set[type[Settings]] = set()
    sections = [section for kind, model in KINDS.items() for section in _models(f"Study of kind: {kind}", model, "")]
    every = [_row(key, Configuration.model_fields[key]) for key in GLOBAL_KEYS]
    head = "\n".join(["## Keys beside the studies\n", "| key | default | meaning |", "|---|---|---|", *every, ""])
    asked = ["| rule | mem_mb | runtime | threads |", "|---|---|---|---|"]
    asked += [f"| {name} | {one.mem_mb} | {one.runtime} | {one.threads} |" for name, one in ALL_RESOURCES.items()]
    parts = [HEADER, head, _section(Resources, "resources", seen), "\n".join([*asked, ""])]
    parts += [_section(model, name, seen) for name, model in sections]
    return "\n".join(part for part in parts if part)


def _models(name: str, model: type[Settings], prefix: str) -> Iterator[tuple[str, type[Settings]]]:
    """A model under its name, then those within it; `prefix` is what stands before the names of its keys."""
    yield name, model
    for key, field in model.model_fields.items():
        for inner in models_within(field.annotation):
            suffix = f" with {': '.join(_tag(inner))}" if _tag(inner) else ""
            yield from _models(prefix + key + suffix, inner, f"{prefix}{key}{suffix}.")


def _tag(model: type[Settings]) -> tuple[str, str] | None:
    """The key whose one value tells this model from its siblings, and the value."""
    for key in ("name", "source"):
        field = model.model_fields.get(key)
        choices = getattr(field.annotation, "__args__", ()) if field is not None else ()
        if len(choices) == 1 and isinstance(choices[0], str):
            return key, choices[0]
    return None


def _section(model: type[Settings], name: str, seen: set[type[Settings]]) -> str:
    if model in seen:
        return ""
    seen.add(model)
    rows = [_row(key, field) for key, field in model.model_fields.items() if key not in (_tag(model) or ())]
    table = "\n".join(["| key | default | meaning |", "|---|---|---|", *rows]) if rows else ""
    return f"## {name}\n\n{model.__doc__}\n\n{table}\n"


def _row(key: str, field: Any) -> str:
    technical = (field.json_schema_extra or {}).get("technical", False)
    shown = f"*{key}*" if technical else key
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
