"""The docstring examples of trueneg.data and trueneg.text give the documented output."""

import doctest
import importlib
from pathlib import Path

import pytest

import trueneg

SOURCE = Path(trueneg.__file__).parent
FILES = [
    SOURCE / "class_probability.py",
    *SOURCE.glob("data/**/*.py"),
    *SOURCE.glob("text/**/*.py"),
]
MODULES = sorted(
    ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
    for file in FILES
    if ">>> " in file.read_text()
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name):
    failed, attempted = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert attempted
    assert not failed
