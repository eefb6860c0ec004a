"""The examples in the docstrings of training, models and runtime run."""

import doctest
import importlib
import pkgutil

import pytest
import torch

import trueneg.models
import trueneg.runtime
import trueneg.training

MODULES = [
    module.name
    for package in (trueneg.models, trueneg.runtime, trueneg.training)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.setenv("TRUENEG_LEASES", str(tmp_path))
    assert doctest.testmod(importlib.import_module(name), extraglobs={"torch": torch}).failed == 0
