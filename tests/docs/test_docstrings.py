"""Every public name has a docstring; those of the public API explain their arguments and the errors that they raise."""

import inspect

import pytest

import trueneg.class_probability
import trueneg.data.imbalance
import trueneg.evaluation.grounding
import trueneg.evaluation.retrieval
import trueneg.losses
import trueneg.losses.adapters
import trueneg.text
import trueneg.theory
from tests.docs.docstrings import SOURCE, Public, listed, public_names, unexplained

# What other people's code relies on: all of these modules' own and exported names.
MODULES = (
    trueneg.class_probability,
    trueneg.data.imbalance,
    trueneg.evaluation.grounding,
    trueneg.evaluation.retrieval,
    trueneg.losses,
    trueneg.losses.adapters,
    trueneg.text,
    trueneg.theory,
)
EXPORTED = [getattr(module, name) for module in MODULES for name in getattr(module, "__all__", vars(module))]
API = {
    (inspect.getsourcefile(value), value.__qualname__)
    for value in EXPORTED
    if (inspect.isfunction(value) or inspect.isclass(value)) and value.__module__.startswith("trueneg.")
}
NAMES = list(public_names())


def in_api(name: Public) -> bool:
    """Whether a name, or the class that it is a method of, belongs to the public API."""
    path, *_, qualified = name.place.split(":")
    return (str(SOURCE.parent / path), qualified.strip().partition(".")[0]) in API


EXPLAINED = [name for name in NAMES if in_api(name)]


def test_every_public_name_has_a_docstring():
    silent = [name.place for name in NAMES if not name.docstring and not name.inherited]
    assert not silent, "\n".join(silent)


def test_every_argument_is_explained():
    missing = [f"{name.place}: {', '.join(unexplained(name))}" for name in EXPLAINED if name.docstring and unexplained(name)]
    assert not missing, "\n".join(missing)


def test_no_docstring_explains_an_argument_that_is_not_there():
    functions = [name for name in NAMES if name.arguments]
    strangers = {name.place: listed(name.docstring) - {*name.arguments, *name.further} for name in functions}
    assert not {place: names for place, names in strangers.items() if names}


def test_every_error_that_is_raised_is_documented():
    expected = ("UserError", "ValueError", "KeyError", "TypeError")
    undocumented = [
        f"{name.place}: {error}"
        for name in EXPLAINED
        if not name.inherited
        for error in name.raised
        if error in expected and error not in name.docstring.partition("Raises:")[2]
    ]
    assert not undocumented, "\n".join(undocumented)


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


def test_the_api_is_found():
    found = {name.place.rpartition(" ")[2] for name in EXPLAINED}
    assert {"Debiased", "ContrastiveLoss", "OpenClipLoss", "split_sentences", "simulate_scores", "recall_at_k"} <= found
