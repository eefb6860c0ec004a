"""Only a kind of study says what it needs: no other code asks which kind a study or a run has."""

import ast
from collections.abc import Iterator

import pytest

from tests.projects import ROOT
from trueneg.errors import UserError
from trueneg.specs.kinds import DEFAULT, KINDS, TRAINED, kind_name, kind_of

PACKAGE = ROOT / "src/trueneg"
REGISTRY = PACKAGE / "specs/kinds"
CLASSES = {study.__name__ for study in KINDS.values()}
# Their kinds are those of anchors and of inputs.
OTHER_KINDS = {"rated_pairs.py", "rating_runs.py", "sentence_transformers_tower.py"}
# Names that are also ordinary words; they count only next to something called `kind`.
WORDS = {"images", "text"}


def strings_in(node: ast.AST) -> set[str]:
    return {
        each.value
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def compared(tree: ast.AST) -> Iterator[tuple[ast.AST, set[str]]]:
    """Yield what looks at a value, with the strings that it compares the value with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            plain = [side for side in sides if not isinstance(side, ast.Subscript | ast.Call)]
            yield node, set().union(*map(strings_in, plain))
        elif isinstance(node, ast.Match):
            yield node, set().union(*(strings_in(case.pattern) for case in node.cases))
        elif isinstance(node, ast.Dict):
            keys = set().union(*(strings_in(key) for key in node.keys if key is not None))
            if len(keys & KINDS.keys()) > 1 and keys <= KINDS.keys():
                yield node, keys | {"a table of kinds"}


def asks(text: str) -> list[str]:
    """Return the expressions of a module that ask for a kind, by its name or its class."""
    tree = ast.parse(text)
    found = []
    for node, strings in compared(tree):
        about_a_kind = "kind" in ast.unparse(node) or "a table of kinds" in strings
        if strings & KINDS.keys() - (set() if about_a_kind else WORDS):
            found.append(f"line {node.lineno}: {ast.unparse(node)[:100]}")
    for node in ast.walk(tree):
        is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if is_call and node.func.id in ("isinstance", "issubclass"):
            names = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            if names & CLASSES:
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_no_code_asks_for_a_kind():
    paths = [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(REGISTRY)]
    paths += [*(ROOT / "workflow/scripts").glob("*.py")]
    found = {path: asks(path.read_text(encoding="utf-8")) for path in paths}
    assert {path.name: lines for path, lines in found.items() if lines}.keys() <= OTHER_KINDS


PLANTED = {
    "an equality": 'if settings["kind"] == "text": pass',
    "an unusual word": 'paired = name == "image-text"',
    "one of several": 'if study.kind in ("images", "text"): pass',
    "a match": 'match name:\n    case "theory": pass',
    "a table": 'READERS = {"images": read_source, "text": read_texts}',
    "a class": "if isinstance(study, ImageTextStudy | TextStudy): pass",
    "a class of classes": "if issubclass(kind, LikelihoodStudy): pass",
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_planted_question_is_found(text):
    assert asks(text)


def test_other_questions_are_allowed():
    assert not asks(
        'if samples == "images" or by == "text": pass\ncosts = {"images": 1, "rows": 2}'
    )
    assert not asks("if isinstance(study, TrainedStudy): pass")


def test_the_kind_of_a_run_is_that_of_its_study():
    for name, study in KINDS.items():
        assert kind_name(study) == name
        assert kind_of({"kind": name}) is study
    for name, study in TRAINED.items():
        assert kind_of({"training": {"kind": name}}) is study
    assert kind_of({"training": {}}) is KINDS[DEFAULT]


def test_an_unknown_kind_is_an_error_of_the_user():
    with pytest.raises(UserError, match=r"'audio'.*images"):
        kind_of({"kind": "audio"})
