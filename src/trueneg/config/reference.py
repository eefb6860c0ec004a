"""Write the JSON schema and the reference page of the configuration from the typed model."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from trueneg.config.configuration import Configuration, RuleResources
from trueneg.specs.kinds import KINDS
from trueneg.specs.resources import Resources
from trueneg.specs.settings import Settings, is_sweepable, is_technical, models_within, tag_of

HEADER = """# Configuration

A configuration file maps names to studies; several files can be given. A list of values for a
setting marked ↔ is a sweep. Settings in *italics* only control where and how fast a study is
computed; they are not part of a run's identity.
`make reference` writes this page.
"""


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file, for editors: ``# yaml-language-server:
    $schema=…/config/schema.json``.
    """
    schema = Configuration.model_json_schema()
    del schema["properties"]["studies"], schema["required"]
    return schema | {
        "additionalProperties": {
            "anyOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in KINDS.values()]
        }
    }


def reference_page() -> str:
    """Return the reference page in Markdown, with one section per model and one row per key."""
    models: dict[type[Settings], tuple[str, str]] = {
        Configuration: ("Top-level keys besides the studies", "studies"),
        RuleResources: ("resources", ""),
        Resources: ("resources of a rule", ""),
    }
    for kind, study in KINDS.items():
        for model, title, tag in _models(study, f"Study of kind: {kind}"):
            models.setdefault(model, (title, tag))
    return "\n".join(
        [HEADER, *(_section(model, *described) for model, described in models.items())]
    )


def _models(
    model: type[Settings], title: str, prefix: str = "", tag: str = ""
) -> Iterator[tuple[type[Settings], str, str]]:
    """Yield a model, its title and its discriminator key, then its nested models; `prefix` precedes
    their keys.
    """
    yield model, title, tag
    for key, field in model.model_fields.items():
        inside = models_within(field.annotation)
        for inner in inside:
            inner_tag, values = tag_of(inner) if len(inside) > 1 else ("", ())
            path = (
                f"{prefix}{key} with {inner_tag}: {' or '.join(values)}"
                if inner_tag
                else prefix + key
            )
            yield from _models(inner, path, f"{path}.", inner_tag)


def _section(model: type[Settings], title: str, hidden: str) -> str:
    rows = [_row(key, field) for key, field in model.model_fields.items() if key != hidden]
    head = ["| key | default | meaning |", "|---|---|---|"] if rows else []
    return "\n".join([f"## {title}\n", f"{model.__doc__}\n", *head, *rows, ""])


def _row(key: str, field: FieldInfo) -> str:
    shown = f"*{key}*" if is_technical(field) else key
    sweep = " ↔" if is_sweepable(field) else ""
    written = "required"
    if not field.is_required():
        default = field.get_default(call_default_factory=True)
        written = "see below" if isinstance(default, Settings) else f"`{json.dumps(default)}`"
    return f"| {shown}{sweep} | {written} | {field.description or 'see below'} |".replace("\n", " ")


if __name__ == "__main__":
    schema_path, page_path = map(Path, sys.argv[1:])
    schema_path.write_text(json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n")
    page_path.write_text(reference_page())
