"""The pages of the library: one a module, made from its docstrings."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = "reference/library"
ROLE = re.compile(r":(\w+):`~?([^`]+)`")


def library_pages(source: Path) -> dict[str, str]:
    """Markdown of every page, by its place in the site.

    Args:
        source: the package's folder, ``src/trueneg``.
    """
    pages = {}
    for path in public_modules(source):
        name = module_name(path, source)
        text = f"# `{name}` {{ #{name} }}\n\n::: {name}\n"
        if path.name == "__init__.py":
            text = _package_page(name, path, source)
        pages[page_of(path, source)] = text
    return pages


def library_navigation(source: Path) -> list[Any]:
    """The part of the navigation that leads to these pages: packages first, their modules below
    them.
    """
    lone, packages = [], []
    for path in public_modules(source):
        parts = path.relative_to(source).parts
        if len(parts) == 1 and path.name != "__init__.py":
            lone.append({module_name(path, source): page_of(path, source)})
        elif len(parts) == 2 and path.name == "__init__.py":
            within = [other for other in public_modules(path.parent) if other != path]
            pages = [
                {module_name(other, source).split(".", 2)[2]: page_of(other, source)}
                for other in within
            ]
            packages.append({module_name(path, source): [page_of(path, source), *pages]})
    return [page_of(source / "__init__.py", source), *packages, *lone]


def public_modules(source: Path) -> Iterator[Path]:
    """Python files that other code may import, in the order of their names; packages are their
    ``__init__.py``.
    """
    for path in sorted(
        source.rglob("*.py"), key=lambda path: (path.parent, path.name != "__init__.py", path.name)
    ):
        if path.name != "__main__.py":
            yield path


def module_name(path: Path, source: Path) -> str:
    """The dotted name under which a file is imported."""
    parts = path.relative_to(source.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def page_of(path: Path, source: Path) -> str:
    """Where a module's page lies in the site."""
    inner = path.relative_to(source)
    is_package = path.name == "__init__.py"
    return f"{FOLDER}/{inner.parent / 'index.md' if is_package else inner.with_suffix('.md')}"


def first_line(path: Path) -> str:
    """The first paragraph of a module's docstring, as one line."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())


def _package_page(name: str, path: Path, source: Path) -> str:
    """What the package says of itself, and a line for each module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    own = any(
        isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.name.startswith("_")
        for node in tree.body
    )
    shown = "" if own else "    options:\n      members: false\n"
    lines = [f"# `{name}` {{ #{name} }}", "", f"::: {name}", shown]
    within = [
        other
        for other in public_modules(path.parent)
        if other != path and _is_below(other, path.parent)
    ]
    if within:
        lines += ["| module | what it is |", "|---|---|"]
    for other in within:
        here = page_of(path, source).rpartition("/")[0]
        link = page_of(other, source).removeprefix(f"{here}/")
        lines.append(f"| [`{module_name(other, source)}`]({link}) | {_cell(first_line(other))} |")
    return "\n".join(lines) + "\n"


def _is_below(path: Path, folder: Path) -> bool:
    return path.parent == folder or (path.name == "__init__.py" and path.parent.parent == folder)


def _cell(text: str) -> str:
    text = ROLE.sub(lambda found: f"`{'#!math ' if found[1] == 'math' else ''}{found[2]}`", text)
    return text.replace("``", "`").replace("|", "\\|").removesuffix("::")
