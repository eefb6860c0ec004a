"""A theory study has the settings of the process and its experiments."""

import importlib
import inspect
import re

from trueneg.specs.experiments import EXPERIMENTS
from trueneg.specs.kinds.theory import SweepSettings


def test_every_sweep_is_used_by_an_experiment():
    code = "".join(
        inspect.getsource(importlib.import_module(f"trueneg.theory.{module}"))
        for module in set(EXPERIMENTS.values())
    )
    assert set(SweepSettings.model_fields) <= set(re.findall(r"sweeps\.(\w+)", code))
