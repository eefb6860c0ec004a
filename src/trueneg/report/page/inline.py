"""What may stand inside the page: data that cannot end its element, images as data, and a policy that lets nothing else in."""

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import markupsafe

# Characters that end a script element, begin a comment in it, or end a line of JavaScript.
_ESCAPES = {character: f"\\u{ord(character):04x}" for character in "<>&"}


def json_text(value: Any) -> markupsafe.Markup:
    r"""Plain values as JSON for a ``<script type="application/json">``: ASCII alone, and no character that HTML reads.

    Raises:
        ValueError: if a number is not finite.

    Example:
        >>> print(json_text({"name": "</script>", "eta": "η"}))
        {"name":"\u003c/script\u003e","eta":"\u03b7"}
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return markupsafe.Markup(text)


def data_uri(content: bytes, kind: str) -> str:
    """An image as text.

    Args:
        content: the file.
        kind: such as ``"webp"``.
    """
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def joined(folder: Path, names: Iterable[str]) -> markupsafe.Markup:
    """Files of the package, one after the other: they are code, not data, and stand in the page as they are."""
    return markupsafe.Markup("\n".join((folder / name).read_text(encoding="utf-8").strip() for name in names))


def content_policy(style: str, script: str) -> str:
    """A Content-Security-Policy that runs this style and this script alone, and fetches nothing.

    Args:
        style: content of the page's style element.
        script: content of its script element.
    """
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)]
    return (
        f"default-src 'none'; img-src data:; style-src 'sha256-{digests[0]}'; script-src 'sha256-{digests[1]}'; "
        "base-uri 'none'; form-action 'none'"
    )
