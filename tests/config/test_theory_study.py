"""A theory study has the settings of the process and its experiments."""

import dataclasses
import importlib
import inspect
import re

from trueneg.config.theory_study import ProcessSettings, SweepSettings
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.theory import Setting


def test_process_defaults_match_the_simulation():
    defaults = {field.name: field.default for field in dataclasses.fields(Setting)}
    assert ProcessSettings().model_dump() == {name: defaults[name] for name in ProcessSettings.model_fields}


def test_every_sweep_is_used_by_an_experiment():
    code = "".join(inspect.getsource(importlib.import_module(f"trueneg.theory.{module}")) for module in set(EXPERIMENTS.values()))
    assert set(SweepSettings.model_fields) <= set(re.findall(r"sweeps\.(\w+)", code))
