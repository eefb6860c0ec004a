"""The examples in docstrings run and give the documented results."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name", ["accuracy", "embedding", "features", "linear_heads", "images.linear_probe", "mean_classifier", "images.knn"]
)
def test_examples_of(name):
    failed, attempted = doctest.testmod(importlib.import_module(f"trueneg.evaluation.{name}"))
    assert attempted
    assert not failed
