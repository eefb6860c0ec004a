"""What the page and the docstrings show runs, and what they promise about importing holds."""

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trueneg.losses

PAGE = Path(__file__).parents[2] / "docs/losses.md"
BLOCKS = re.findall(r"^```python(?: requires=(\w+))?\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
MODULES = ["trueneg.class_probability"] + [
    f"trueneg.losses.{module.name}" for module in pkgutil.iter_modules(trueneg.losses.__path__)
]


@pytest.mark.parametrize(("requires", "code"), BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_every_example_of_the_page_runs(requires, code):
    if requires:
        pytest.importorskip(requires, reason=f"the example shows how to use the losses with {requires}")
    exec(compile(code, str(PAGE), "exec"), {"__name__": "example"})


@pytest.mark.parametrize("name", MODULES)
def test_every_example_of_a_docstring_runs(name):
    assert doctest.testmod(importlib.import_module(name), extraglobs={"torch": torch}).failed == 0


@pytest.mark.parametrize("name", [name for name in trueneg.losses.__all__ if name[0].isupper()])
def test_every_public_class_says_what_it_is(name):
    assert len(getattr(trueneg.losses, name).__doc__) > 40


IMPORTED = """
import sys, time
import torch
before, start = set(sys.modules), time.perf_counter()
import trueneg.losses
seconds = time.perf_counter() - start
packages = {name.partition(".")[0] for name in set(sys.modules) - before}
print(seconds, *sorted(packages - set(sys.stdlib_module_names) - {"torch", "trueneg"}))
"""


def test_importing_the_losses_needs_torch_alone_and_little_time():
    finished = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    seconds, *others = finished.stdout.split()
    assert others == []
    assert float(seconds) < 1
