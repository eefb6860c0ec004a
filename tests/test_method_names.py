"""Training never asks for the name of an objective or of its targets: their classes say what they
need.
"""

import pytest
import torch

from tests.objectives import examples, train_one_update
from tests.studies import first_run, tiny_study
from tests.text.models import saved
from tests.textures import settings_of, texture_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.losses.registry import ESTIMATORS, WHOLE_LOSSES
from trueneg.losses.targets import RULES
from trueneg.specs.objectives import OF_PAIRS, OF_TWO_VIEWS
from trueneg.store.identity import model_of
from trueneg.training import loop
from trueneg.training.image_text import ImageText
from trueneg.training.simclr import SimCLR

OTHER = "renamed"


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    source = texture_source(patients=30, language_model=saved(tmp_path_factory.mktemp("model")))
    return source, split_pairs(source, 0)


@pytest.fixture
def renamed(monkeypatch):
    """Register an objective and its targets under another name, and return its settings."""

    def one(settings):
        objective, kind = settings["objective"], settings["training"].get("kind", "images")
        model = model_of({"training": {"kind": kind}, **settings}, "objective")

        def model_of_renamed(settings, part):
            return model if part == "objective" else model_of(settings, part)

        monkeypatch.setattr(loop, "model_of", model_of_renamed)
        changes = {"name": OTHER}
        for registry in (ESTIMATORS, WHOLE_LOSSES):
            if objective["name"] in registry:
                monkeypatch.setitem(registry, OTHER, registry[objective["name"]])
        if targets := objective.get("targets"):
            monkeypatch.setitem(RULES, OTHER, RULES[targets["name"]])
            changes["targets"] = targets | {"name": OTHER}
        return settings | {"objective": objective | changes}

    return one


def assert_equal_training(kind, settings, other, source, subset):
    first, second = (
        kind(each, 0, source, subset, torch.device("cpu")) for each in (settings, other)
    )
    for training in (first, second):
        train_one_update(training)
    weights = second.network.state_dict()
    for name, value in first.network.state_dict().items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=0, msg=name)
    assert second.monitors.__class__ is first.monitors.__class__


@pytest.mark.parametrize(
    "objective", [pytest.param(each, id=name) for name, each in examples(OF_PAIRS)]
)
def test_a_renamed_objective_of_pairs_trains_the_same(objective, pairs, renamed):
    settings = settings_of(objective)
    assert_equal_training(ImageText, settings, renamed(settings), *pairs)


@pytest.mark.parametrize(
    "objective", [pytest.param(each, id=name) for name, each in examples(OF_TWO_VIEWS)]
)
def test_a_renamed_objective_of_two_views_trains_the_same(objective, renamed):
    settings = first_run("tiny", {"tiny": tiny_study()}, "CL").to_json()["settings"]
    settings["objective"] = objective
    source = load_source("digits")
    subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
    assert_equal_training(SimCLR, settings, renamed(settings), source, subset)
