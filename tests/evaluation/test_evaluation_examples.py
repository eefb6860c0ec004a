"""The examples in the documentation run, and give what they say."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["accuracy", "embedding", "features", "linear_probe", "mean_classifier", "nearest_neighbours"])
def test_examples_of(name):
    failed, attempted = doctest.testmod(importlib.import_module(f"trueneg.evaluation.{name}"))
    assert attempted
    assert not failed
