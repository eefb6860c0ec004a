"""Equations as MathML, which browsers draw themselves: no script and no font from elsewhere."""

import html
from collections.abc import Mapping
from typing import Any

from latex2mathml.converter import convert
from pymdownx.inlinehilite import InlineHiliteException
from pymdownx.superfences import SuperFencesException

# Commands that the converter does not know, and what it knows instead.
UNKNOWN = {f"\\arg\\{which}": f"\\mathrm{{arg}}\\,\\{which}" for which in ("max", "min")}


def mathml(equation: str, *, block: bool) -> str:
    r"""An equation as HTML that keeps its LaTeX source for whoever copies it, or has no MathML.

    Args:
        equation: LaTeX of the mathematical mode, without dollar signs.
        block: on a line of its own.

    Raises:
        ValueError: if a command is not known, which would be shown as it is written.

    Example:
        >>> mathml(r"\eta", block=False)
        '<span class="equation" title="\\eta"><math ...><mrow><mi>&#x003B7;</mi></mrow>...'
    """
    source = " ".join(equation.split())
    known = source
    for command, instead in UNKNOWN.items():
        known = known.replace(command, instead)
    drawn = convert(known, display="block" if block else "inline")
    if "\\" in drawn.replace("\\\\", ""):
        raise ValueError(
            f"The equation {source} contains a command that cannot be drawn; write it with others."
        )
    tag = "div" if block else "span"
    return f'<{tag} class="equation" title="{html.escape(source)}">{drawn}</{tag}>'


def fenced(
    source: str, language: str, css_class: str, options: Mapping[str, Any], md: Any, **_: Any
) -> str:
    """A ``math`` block of a page; called by pymdownx.superfences."""
    try:
        return mathml(source, block=True)
    except ValueError as error:
        # any other is passed over, and the source shown
        raise SuperFencesException(str(error)) from error


def inline(source: str, language: str, css_class: str, md: Any) -> str:
    """Inline code that begins with ``#!math``; called by pymdownx.inlinehilite."""
    try:
        return mathml(source, block=False)
    except ValueError as error:
        raise InlineHiliteException(str(error)) from error
