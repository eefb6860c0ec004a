"""Examples in docstrings run, and importing the losses imports only torch."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest
import torch

import trueneg.losses

MODULES = [
    "trueneg.class_probability",
    *(module.name for module in pkgutil.walk_packages(trueneg.losses.__path__, "trueneg.losses.")),
]


@pytest.mark.parametrize("name", MODULES)
def test_every_example_of_a_docstring_runs(name):
    assert doctest.testmod(importlib.import_module(name), extraglobs={"torch": torch}).failed == 0


@pytest.mark.parametrize("name", [name for name in trueneg.losses.__all__ if name[0].isupper()])
def test_every_public_class_has_a_docstring(name):
    assert len(getattr(trueneg.losses, name).__doc__) > 40


IMPORTED = """
import sys
import torch, torch.distributed, torch.utils.checkpoint  # some versions load these later
before = set(sys.modules)
import trueneg.losses
packages = {name.partition(".")[0] for name in set(sys.modules) - before}
print(*sorted(packages - set(sys.stdlib_module_names) - {"torch", "trueneg"}))
"""


def test_importing_the_losses_imports_only_torch():
    finished = subprocess.run(
        [sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True
    )
    assert finished.stdout.split() == []
