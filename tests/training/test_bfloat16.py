"""With bfloat16 networks, as on a GPU, loss and gradient of every objective are close to
float32.
"""

import math

import pytest
import torch

from tests.objectives import examples, train_one_update
from tests.studies import first_run, tiny_study
from tests.text.models import saved
from tests.textures import LSE_NL, settings_of, texture_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.runtime import precision
from trueneg.specs.objectives import OF_PAIRS, OF_TWO_VIEWS
from trueneg.training.image_text import ImageText
from trueneg.training.simclr import SimCLR

CPU = torch.device("cpu")
DIGITS = 2**-8  # rounding of a bfloat16 number, relative to it


def of(registered):
    """Every objective except attraction, whose targets change discontinuously with rounding."""
    return [
        pytest.param(settings, id=name)
        for name, settings in examples(registered)
        if "fnc" not in name
    ]


@pytest.fixture(scope="module")
def digits():
    source = load_source("digits")
    return source, make_subset(
        source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25
    )


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    source = texture_source(patients=30, language_model=saved(tmp_path_factory.mktemp("model")))
    return source, split_pairs(source, 0)


def updated(start):
    """Return loss, gradient and dtype of the network's output in the first update."""
    training, types = start(), set()
    for module in training.network.modules():
        module.register_forward_hook(
            lambda _, given, result: types.add(getattr(result, "dtype", None))
        )
    train_one_update(training)
    gradients = [
        value.grad.flatten() for value in training.network.parameters() if value.grad is not None
    ]
    return float(training.monitors.totals[0]), torch.cat(gradients), torch.bfloat16 in types


def assert_close(monkeypatch, start, tolerance):
    loss, gradient, rounded = updated(start)
    assert not rounded
    monkeypatch.setattr(precision, "forward_dtype", lambda device: torch.bfloat16)
    loss_of_rounded, gradient_of_rounded, rounded = updated(start)
    assert rounded
    assert gradient_of_rounded.dtype == torch.float32
    assert math.isclose(loss_of_rounded, loss, rel_tol=4 * DIGITS)
    assert (gradient_of_rounded - gradient).norm() <= tolerance * gradient.norm()


# The network is so narrow that rounding, which turns some of its units on or off, changes the
# gradient more.
@pytest.mark.parametrize("objective", of(OF_TWO_VIEWS))
def test_two_views(monkeypatch, digits, objective):
    settings = {
        **first_run("tiny", {"tiny": tiny_study()}, "CL").to_json()["settings"],
        "objective": objective,
    }
    assert_close(monkeypatch, lambda: SimCLR(settings, 0, *digits, CPU), tolerance=0.25)


@pytest.mark.parametrize("objective", of(OF_PAIRS))
def test_image_text(monkeypatch, pairs, objective):
    assert_close(
        monkeypatch, lambda: ImageText(settings_of(objective), 0, *pairs, CPU), tolerance=0.1
    )


def test_regions(monkeypatch, pairs):
    settings = settings_of({"name": "cl", "directions": "both"}, similarity=LSE_NL)
    assert_close(monkeypatch, lambda: ImageText(settings, 0, *pairs, CPU), tolerance=0.1)
