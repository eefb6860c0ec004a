"""Docstrings are written in reST roles and Google's sections; here they become the Markdown that
the site is made of.
"""

import contextlib
import re
import textwrap

import griffe

EQUATION = re.compile(
    r"^(?P<indent> *)\.\. math::(?P<first>[^\n]*)\n(?P<rest>(?:(?P=indent) +[^\n]*\n|\s*\n)*)", re.M
)
ROLE = re.compile(r":(?P<role>class|meth|func|attr|mod|data|exc|obj|math):`(?P<target>[^`]+)`")
LITERAL_BLOCK = re.compile(r"::$", re.M)


class Markdown(griffe.Extension):
    """Rewrites every docstring before its sections are read."""

    def on_package(self, *, pkg: griffe.Module, **_) -> None:
        """Rewrite the docstrings of a whole package, when all names in it are known."""
        for found in objects(pkg):
            if found.docstring is not None:
                found.docstring.value = to_markdown(found.docstring.value, found)


def objects(parent: griffe.Object):
    """An object and what is defined within it; not what it imports."""
    yield parent
    for member in parent.members.values():
        if not member.is_alias:
            yield from objects(member)


def to_markdown(text: str, place: griffe.Object) -> str:
    """A docstring's text as Markdown.

    Args:
        text: reST with ``.. math::`` and roles.
        place: whose docstring it is; names are looked up from there.
    """
    text = EQUATION.sub(_block, text + "\n").rstrip("\n")
    text = ROLE.sub(lambda found: _role(found["role"], found["target"], place), text)
    text = LITERAL_BLOCK.sub(":", text)
    return re.sub(r"^Example:$", "Examples:", text, flags=re.M)


def _block(found: re.Match[str]) -> str:
    rest = textwrap.dedent(found["rest"]).strip()
    equation = " ".join(f"{found['first']} {rest}".split())
    indent = found["indent"]
    return f"{indent}```math\n{indent}{equation}\n{indent}```\n\n"


def _role(role: str, target: str, place: griffe.Object) -> str:
    if role == "math":
        return f"`#!math {target}`"
    short = target.startswith("~")
    target = target.removeprefix("~")
    shown = target.rpartition(".")[2] if short else target
    shown += "()" if role in ("func", "meth") else ""
    documented = resolved(target, place)
    return f"[`{shown}`][{documented}]" if documented else f"`{shown}`"


def resolved(target: str, place: griffe.Object) -> str | None:
    """The full path of what a role names, if the site describes it.

    Args:
        target: a name as Python would find it at that place, or a full path.
        place: the object whose docstring names it.
    """
    package = place.package
    for path in _candidates(target, place):
        try:
            found = (
                package[path.removeprefix(f"{package.path}.")] if path != package.path else package
            )
        except KeyError:
            continue
        found = found.final_target if found.is_alias else found
        if (
            found.path.startswith(f"{package.path}.")
            and not re.search(r"\._", found.path)
            and found.docstring is not None
        ):
            return found.path
    return None


def _candidates(target: str, place: griffe.Object):
    if target.startswith(f"{place.package.path}."):
        yield target
    first, _, rest = target.partition(".")
    with contextlib.suppress(griffe.NameResolutionError):
        yield place.resolve(first) + (f".{rest}" if rest else "")
    if place.parent is not None and place.parent.is_class:  # a sibling method
        yield f"{place.parent.path}.{target}"
