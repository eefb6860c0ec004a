"""What the package's source says of itself: public names, their docstrings, what they take and what they raise."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.projects import ROOT

SOURCE = ROOT / "src/trueneg"
SECTION = r"^{}:\n((?:(?: +[^\n]*)?\n)+)"
FEW = 2  # of so few arguments the sentence can speak


class Public(NamedTuple):
    """A public name.

    Attributes:
        place: file, line and name.
        docstring: its own; empty if none.
        arguments: what it takes, of a function.
        further: the names under which it takes any others, such as keywords.
        raised: classes of the errors that it raises itself and lets out.
        inherited: whether a base class or a protocol of its module describes it.
    """

    place: str
    docstring: str
    arguments: tuple[str, ...] = ()
    further: frozenset[str] = frozenset()
    raised: frozenset[str] = frozenset()
    inherited: bool = False


def public_names(source: Path = SOURCE) -> Iterator[Public]:
    """Modules, classes, functions and methods whose names do not begin with an underscore."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(source.rglob("*.py"))}
    classes = {node.name: node for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)}
    for path, tree in trees.items():
        if tree.body:
            yield Public(f"{path.relative_to(source.parent)}: the module", ast.get_docstring(tree) or "")
        protocols = [node for node in tree.body if isinstance(node, ast.ClassDef) and "Protocol" in _bases(node)]
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                yield from _described(node, path.relative_to(source.parent), "", [], classes)
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                others = [*protocols, *_ancestors(node, classes)]
                for member in node.body:
                    if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                        yield from _described(member, path.relative_to(source.parent), f"{node.name}.", others, classes)


def section(docstring: str, title: str) -> str:
    """A section of a docstring, dedented of nothing; empty if there is none."""
    found = re.search(SECTION.format(title), docstring + "\n", re.M)
    return found[1] if found else ""


def listed(docstring: str) -> set[str]:
    """The arguments that a docstring's section lists."""
    entries = re.findall(r"^ {4}(\**\w[\w, *]*?)(?: \([^)]*\))?:", section(docstring, "Args"), re.M)
    return {name.strip(" *") for entry in entries for name in entry.split(",")}


def unexplained(name: Public) -> list[str]:
    """The arguments of which a docstring says nothing, where it should.

    A section ``Args`` lists them all. Without one, functions of few arguments may leave it to the sentence; others name each
    in the text, or refer to another function.
    """
    text = name.docstring
    if section(text, "Args"):
        return [argument for argument in name.arguments if argument not in listed(text)]
    if len(name.arguments) <= FEW or re.search(r":(?:meth|func|class):", text) or re.search(r"\bas there\b", text, re.I):
        return []
    return [argument for argument in name.arguments if not re.search(rf"\b{argument}\b", text)]


def _described(node, path: Path, prefix: str, others: list[ast.ClassDef], classes) -> Iterator[Public]:
    place = f"{path}:{node.lineno}: {prefix}{node.name}"
    inherited = any(_documents(other, node.name) for other in others) or (node.name == "forward" and bool(others or prefix))
    if isinstance(node, ast.ClassDef):
        yield Public(place, ast.get_docstring(node) or "")
        return
    arguments = [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    if prefix and arguments and arguments[0] in ("self", "cls"):
        arguments = arguments[1:]
    shown = tuple(each for each in arguments if not each.startswith("_"))
    further = frozenset(each.arg for each in (node.args.vararg, node.args.kwarg) if each is not None)
    yield Public(place, ast.get_docstring(node) or "", shown, further, frozenset(_raised(node.body)), inherited)


def _bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).rpartition(".")[2].partition("[")[0] for base in node.bases]


def _ancestors(node: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef]:
    found = []
    for base in _bases(node):
        if base in classes and classes[base] is not node:
            found += [classes[base], *_ancestors(classes[base], classes)]
    return found


def _documents(node: ast.ClassDef, name: str) -> bool:
    return any(isinstance(member, ast.FunctionDef) and member.name == name and ast.get_docstring(member) for member in node.body)


def _raised(body: list[ast.stmt]) -> Iterator[str]:
    """Names of the error classes that statements raise, but for those that a handler of theirs catches."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if isinstance(error, ast.Name) and error.id[0].isupper():
                yield error.id
        if isinstance(node, ast.Try):
            caught = {name for handler in node.handlers for name in re.findall(r"\w+", ast.unparse(handler.type or ast.Name("")))}
            yield from (name for name in _raised(node.body) if not caught & {name, "Exception"})
            for part in (*(handler.body for handler in node.handlers), node.orelse, node.finalbody):
                yield from _raised(part)
        else:
            for part in ("body", "orelse"):
                yield from _raised(getattr(node, part, []))
            for case in getattr(node, "cases", []):
                yield from _raised(case.body)
