"""The examples in docstrings run and give the documented results."""

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

from trueneg import evaluation

WITH_EXAMPLES = [
    module.name
    for module in pkgutil.walk_packages(evaluation.__path__, "trueneg.evaluation.")
    if ">>> "
    in Path(module.module_finder.find_spec(module.name).origin).read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_of(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_the_public_modules_have_examples():
    assert {"trueneg.evaluation.retrieval", "trueneg.evaluation.grounding"} <= set(WITH_EXAMPLES)
