"""Examples in docstrings give their output, and importing the losses imports only torch."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trueneg.losses

SOURCE = Path(trueneg.__file__).parent


def modules_with_examples(*patterns):
    """The names of the package's modules that have examples, of files that match a pattern."""
    return sorted(
        ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)
        for pattern in patterns
        for file in SOURCE.glob(pattern)
        if ">>> " in file.read_text(encoding="utf-8")
    )


def check_examples(name):
    failed, attempted = doctest.testmod(
        importlib.import_module(name),
        extraglobs={"torch": torch},
        optionflags=doctest.ELLIPSIS,
    )
    assert attempted > 0
    assert failed == 0


MODULES = modules_with_examples("class_probability.py", "losses/**/*.py")


@pytest.mark.parametrize("name", MODULES)
def test_every_example_of_a_docstring_runs(name):
    check_examples(name)


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
