"""Every public name has a docstring; those of the public API explain their arguments and the errors
that they raise.
"""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import trueneg

# The public API: what these modules define or export.
API = (
    "class_probability",
    "data.imbalance",
    "evaluation.grounding",
    "evaluation.retrieval",
    "losses",
    "losses.adapters",
    "text",
)
API += ("theory",)
MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(trueneg.__path__, "trueneg.")
    if not module.name.endswith("__main__")
]


def members(module, origin):
    """Yield the public classes, functions and methods of a module that come from modules whose name
    starts with `origin`.
    """
    for name in getattr(module, "__all__", vars(module)):
        value = getattr(module, name)
        is_own = (
            inspect.isclass(value) or inspect.isfunction(value)
        ) and value.__module__.startswith(origin)
        if is_own and not name.startswith("_") and "<locals>" not in value.__qualname__:
            methods = vars(value).items() if inspect.isclass(value) else ()
            yield from [
                value,
                *(
                    each
                    for key, each in methods
                    if inspect.isfunction(each) and not key.startswith("_")
                ),
            ]


def path_of(value):
    return f"{value.__module__}.{value.__qualname__}"


DEFINED = {
    path_of(value): value for module in MODULES for value in members(module, module.__name__)
}
PUBLIC = {
    path_of(value): value
    for name in API
    for value in members(importlib.import_module(f"trueneg.{name}"), "trueneg.")
}
WITH_ARGUMENTS = {
    path: value for path, value in (DEFINED | PUBLIC).items() if inspect.isfunction(value)
}
# others inherit theirs
EXPLAINED = {
    path: value for path, value in WITH_ARGUMENTS.items() if path in PUBLIC and value.__doc__
}


def section(value, title):
    """Return a section of a docstring; empty if there is none."""
    found = re.search(
        rf"^{title}:\n((?:(?: +.*)?\n)+)", f"{inspect.cleandoc(value.__doc__ or '')}\n", re.M
    )
    return found[1] if found else ""


def listed(value):
    """Return the arguments that the section ``Args`` lists, two of them in an entry such as ``
    a, b: numbers.``
    """
    entries = re.findall(r"^ {4}(\**\w[\w, *]*?)(?: \([^)]*\))?:", section(value, "Args"), re.M)
    return {name.strip(" *") for entry in entries for name in entry.split(",")}


def parameters(value):
    return {name for name in inspect.signature(value).parameters if not name.startswith("_")} - {
        "self",
        "cls",
    }


def named_parameters(value):
    """Return the parameters without those that collect further arguments, such as
    ``**settings``.
    """
    return {
        name
        for name in parameters(value)
        if "VAR" not in inspect.signature(value).parameters[name].kind.name
    }


def unexplained(value):
    """Return the arguments that a docstring should explain and does not.

    Without a section ``Args``, one or two arguments need no explanation; more are named in the
    text, or explained elsewhere.
    """
    if section(value, "Args"):
        return named_parameters(value) - listed(value)
    if len(named_parameters(value)) <= 2 or re.search(r":(?:meth|func|class):", value.__doc__):
        return set()
    return {
        name for name in named_parameters(value) if not re.search(rf"\b{name}\b", value.__doc__)
    }


def test_every_public_name_has_a_docstring():
    undocumented = [
        module.__name__
        for module in MODULES
        if not module.__doc__ and Path(module.__file__).stat().st_size
    ]
    for path, value in DEFINED.items():
        owner = getattr(importlib.import_module(value.__module__), value.__qualname__.split(".")[0])
        if not inspect.getdoc(
            value if "." not in value.__qualname__ else getattr(owner, value.__name__)
        ):
            undocumented.append(path)
    assert undocumented == []


def test_every_argument_is_explained():
    assert {
        path: unexplained(value) for path, value in EXPLAINED.items() if unexplained(value)
    } == {}


def test_no_docstring_explains_an_argument_that_does_not_exist():
    unknown = {path: listed(value) - parameters(value) for path, value in WITH_ARGUMENTS.items()}
    assert {path: names for path, names in unknown.items() if names} == {}


def test_every_error_that_is_raised_is_documented():
    undocumented = [
        f"{path}: {error}"
        for path, value in EXPLAINED.items()
        for error in re.findall(
            r"raise (UserError|ValueError|KeyError|TypeError)\b", inspect.getsource(value)
        )
        if error not in section(value, "Raises")
    ]
    assert undocumented == []


def test_missing_explanations_are_noticed():
    def add(a, b, c):
        """Add `a` and `b`."""

    assert unexplained(add) == {"c"}
    add.__doc__ = "Add.\n\nArgs:\n    a, b: numbers.\n    d: a number,\n        of any size.\n"
    assert unexplained(add) == {"c"}
    assert listed(add) == {"a", "b", "d"}
    names = {path.rpartition(".")[2] for path in PUBLIC}
    assert {
        "Debiased",
        "ContrastiveLoss",
        "OpenClipLoss",
        "split_sentences",
        "simulate_scores",
        "recall_at_k",
    } <= names
