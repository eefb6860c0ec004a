"""The settings of a theory study are those that its experiments take, with the same defaults."""

import dataclasses
import inspect

import pytest

from trueneg.config.theory_study import ProcessSettings, SweepSettings
from trueneg.specs.experiments import EXPERIMENTS
from trueneg.theory import Setting
from trueneg.theory.experiments import experiment

SWEEPS = SweepSettings().model_dump()


def test_the_process_has_the_defaults_of_the_simulation():
    defaults = {field.name: field.default for field in dataclasses.fields(Setting)}
    assert ProcessSettings().model_dump() == {name: defaults[name] for name in ProcessSettings.model_fields}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_sweep_has_the_default_of_the_experiment_that_takes_it(name):
    keywords = inspect.signature(experiment(name)).parameters
    for key in SWEEPS.keys() & keywords.keys():
        default = keywords[key].default
        assert SWEEPS[key] == (list(default) if isinstance(default, tuple) else default), key


def test_every_sweep_is_taken_by_an_experiment():
    taken = {key for name in EXPERIMENTS for key in inspect.signature(experiment(name)).parameters}
    assert SWEEPS.keys() <= taken
