"""Training, evaluation and losses never ask which objective, target, guide or encoder a run has:
its class says what it needs.
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.projects import ROOT
from trueneg.store.versions import today

PACKAGES = ("training", "evaluation", "losses")
REGISTRIES = {"losses/registry.py", "losses/targets.py"}  # their tables map names to classes
KINDS = ("objective", "targets", "guide", "encoder", "text_encoder")
NAMES = {part.rpartition("/")[2] for part in today() if part.startswith(KINDS)}
# Names that are also ordinary words; they count only next to something called `name`.
WORDS = {"self", "labels", "features", "words", "released", "small", "encoder", "vectors", "global"}
SOURCES = {
    path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src/trueneg").rglob("*.py"))
}


def strings_in(node: ast.AST) -> set[str]:
    """Return the string constants of an expression."""
    return {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def constants_of(tree: ast.Module) -> dict[str, set[str]]:
    """Return the strings of each constant of a module, such as ``MARKING = ("remove",
    "guided")``.
    """
    assigned = [
        each
        for each in tree.body
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    ]
    return {
        each.targets[0].id: strings_in(each.value)
        for each in assigned
        if each.targets[0].id.isupper()
    }


CONSTANTS = {
    name: strings
    for text in SOURCES.values()
    for name, strings in constants_of(ast.parse(text)).items()
}


def compared(tree: ast.AST, *, tables: bool = True) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Yield what looks at a value, with the expressions that it compares the value with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield node, [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            yield node, [case.pattern for case in node.cases]
        elif isinstance(node, ast.Dict) and tables:
            yield node, [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
            (".startswith", ".endswith")
        ):
            yield node, list(node.args)


def asks(
    text: str, *, tables: bool = True, constants: dict[str, set[str]] = CONSTANTS
) -> list[str]:
    """Return the expressions of a module that ask for a name."""
    found = []
    for node, expressions in compared(ast.parse(text), tables=tables):
        strings = {
            string
            for each in expressions
            if not isinstance(each, ast.Subscript | ast.Call)
            for string in strings_in(each)
        }
        identifiers = {ast.unparse(each).rpartition(".")[2] for each in expressions}
        strings = strings.union(*(constants.get(identifier, set()) for identifier in identifiers))
        about_a_name = re.search(r"\bname\b", ast.unparse(node))
        if strings & NAMES - (set() if about_a_name else WORDS):
            found.append(f"line {node.lineno}: {ast.unparse(node)[:100]}")
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_no_code_asks_for_a_name(package):
    root = ROOT / "src/trueneg"
    paths = {
        path.relative_to(root).as_posix(): text
        for path, text in SOURCES.items()
        if path.is_relative_to(root / package)
    }
    found = {path: asks(text, tables=path not in REGISTRIES) for path, text in paths.items()}
    assert {path: lines for path, lines in found.items() if lines} == {}


PLANTED = {
    "an equality": 'if objective["name"] == "glofnd": pass',
    "a guide, which is also a word": 'if guide["name"] != "labels": pass',
    "an attribute": 'learn = settings.name == "biovil"',
    "one of several": 'is_own = name in ("reco", "oc")',
    "a constant": 'MARKING = ("remove", "guided")\nmarks = objective["name"] in MARKING',
    "a match": 'match kind:\n    case "ema": pass',
    "a table": 'losses = {"clip": "cl", "biovil": "cl"}',
    "the beginning of a name": 'small = name.startswith("small")',
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_planted_question_is_found(text):
    assert asks(text, constants=CONSTANTS | constants_of(ast.parse(text)))


def test_other_comparisons_are_allowed():
    assert not asks(
        'if form == "released" or by == "labels" or unit == "image": pass\nparts = {"labels": 1}'
    )


def test_all_kinds_of_names_are_known():
    assert {"dcl", "fnc", "ema", "clip", "pretrained", "untrained"} <= NAMES
