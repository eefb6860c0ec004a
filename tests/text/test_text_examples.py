"""The examples in the docstrings run and give the documented output."""

import doctest
import importlib

import pytest

MODULES = (
    "trueneg.class_probability",
    "trueneg.data.phantom.classes",
    "trueneg.data.phantom.reports",
    "trueneg.text.assumption",
    "trueneg.text.chunks",
    "trueneg.text.log_linear",
    "trueneg.data.reports.open_i_classes",
    "trueneg.data.reports.sections",
    "trueneg.text.cleaning",
    "trueneg.text.sentences",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of(name):
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted
    assert not failed
