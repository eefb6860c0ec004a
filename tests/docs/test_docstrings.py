"""Every public name says what it is, what it takes and what it raises."""

import pytest

from tests.docs.docstrings import Public, listed, public_names, unexplained

NAMES = list(public_names())


def test_every_public_name_has_a_docstring():
    silent = [name.place for name in NAMES if not name.docstring and not name.inherited]
    assert not silent, "\n".join(silent)


def test_every_argument_is_explained():
    missing = [f"{name.place}: {', '.join(unexplained(name))}" for name in NAMES if name.docstring and unexplained(name)]
    assert not missing, "\n".join(missing)


def test_no_docstring_explains_an_argument_that_is_not_there():
    functions = [name for name in NAMES if name.arguments]
    strangers = {name.place: listed(name.docstring) - {*name.arguments, *name.further} for name in functions}
    assert not {place: names for place, names in strangers.items() if names}


def test_every_error_that_is_raised_is_told():
    expected = ("UserError", "ValueError", "KeyError", "TypeError")
    untold = [
        f"{name.place}: {error}"
        for name in NAMES
        if not name.inherited
        for error in name.raised
        if error in expected and error not in name.docstring.partition("Raises:")[2]
    ]
    assert not untold, "\n".join(untold)


@pytest.mark.parametrize(
    ("docstring", "missing"),
    [
        ("Sum.", ["a", "b", "c"]),
        ("The sum of a, b and c.", []),
        ("As :func:`other`.", []),
        ("Sum.\n\nArgs:\n    a, b: numbers.\n    c: one more,\n        of any size.\n", []),
        ("Sum of a, b and c.\n\nArgs:\n    a: a number.\n", ["b", "c"]),
    ],
)
def test_what_counts_as_explained(docstring, missing):
    assert unexplained(Public("here", docstring, ("a", "b", "c"))) == missing


def test_there_are_names():
    assert len(NAMES) > 1000
