"""The settings of a theory study are those that the process and its experiments take."""

import dataclasses
import importlib
import inspect
import re

from trueneg.config.theory_study import ProcessSettings, SweepSettings
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.theory import Setting


def test_the_process_has_the_defaults_of_the_simulation():
    defaults = {field.name: field.default for field in dataclasses.fields(Setting)}
    assert ProcessSettings().model_dump() == {name: defaults[name] for name in ProcessSettings.model_fields}


def test_every_sweep_is_taken_by_an_experiment():
    code = "".join(inspect.getsource(importlib.import_module(f"trueneg.theory.{module}")) for module in set(EXPERIMENTS.values()))
    assert set(SweepSettings.model_fields) <= set(re.findall(r"sweeps\.(\w+)", code))
