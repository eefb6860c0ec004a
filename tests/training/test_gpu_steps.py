"""Updates of every objective on a simulated GPU have no operands on the CPU and do not synchronise
the device.
"""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from tests.objectives import examples, train_one_update, variants
from tests.pretended_gpu import GPU, pretended_gpu, without_driver
from tests.studies import first_run, tiny_study
from tests.text.models import saved
from tests.textures import CONVIRT, LSE_NL, settings_of, texture_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.specs.objectives import OF_PAIRS, OF_TWO_VIEWS
from trueneg.training.image_text import ImageText
from trueneg.training.simclr import SimCLR

pytestmark = pytest.mark.filterwarnings(
    "ignore:User provided device_type of 'cuda'", "ignore:CUDA is not available"
)


def of(registered):
    fast = [pytest.param(settings, id=name) for name, settings in examples(registered)]
    return fast + [
        pytest.param(settings, id=name, marks=pytest.mark.long)
        for name, settings in variants(registered)
    ]


@pytest.fixture(scope="module")
def digits():
    return load_source("digits")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    source = texture_source(patients=30, language_model=saved(tmp_path_factory.mktemp("model")))
    lengths = source.sentences["sentence"].str.len()
    source = dataclasses.replace(
        source, sentences=source.sentences.assign(**{"eta by length": 0.1 / lengths})
    )
    return source, split_pairs(source, 0)


@pytest.fixture
def update(monkeypatch):
    """Train one update of a run on the simulated GPU, and return the run."""

    def one(kind, settings, source, subset):
        without_driver(monkeypatch)
        with pretended_gpu(readable=True) as device:  # set-up may wait for values: it runs once
            training = kind(settings, 0, source, subset, GPU)
            device.readable = False
            train_one_update(training)
        return training

    return one


@pytest.fixture
def two_views(update, digits):
    def one(objective, source=digits, **sections):
        settings = first_run("tiny", {"tiny": tiny_study(**sections)}, "CL").to_json()["settings"]
        subset = make_subset(source, seed=0, fraction=0.25, rare_classes=[5, 6, 7, 8, 9], test=0.25)
        return update(SimCLR, {**settings, "objective": objective}, source, subset)

    return one


@pytest.fixture
def image_text(update, pairs):
    def one(objective, **sections):
        return update(ImageText, settings_of(objective, **sections), *pairs)

    return one


@pytest.mark.parametrize("objective", of(OF_TWO_VIEWS))
def test_an_update_of_two_views_stays_on_the_gpu(two_views, objective):
    training = two_views(objective)
    assert {value.device.type for value in training.network.parameters()} == {"cuda"}


@pytest.mark.parametrize("objective", of(OF_PAIRS))
def test_an_update_of_image_text_training_stays_on_the_gpu(image_text, objective):
    training = image_text(objective)
    assert {value.device.type for value in training.network.parameters()} == {"cuda"}


@pytest.mark.long
def test_colour_augmentation_stays_on_the_gpu(two_views, digits):
    coloured = dataclasses.replace(digits, images=np.repeat(digits.images, 3, axis=1))
    two_views({"name": "cl"}, coloured, augmentation={"name": "color"})


@pytest.mark.parametrize(
    "sections",
    [
        {"similarity": {**LSE_NL, "combined": "losses"}},
        {"text_encoder": {"pooling": "max"}, "augmentation": CONVIRT},
        pytest.param(
            {"training": {"unit": "study", "optimizer": "adam"}, "projection": {"name": "mlp"}},
            marks=pytest.mark.long,
        ),
        pytest.param(
            {"training": {"batch_size": 8}, "augmentation": {"crop": 0.75}}, marks=pytest.mark.long
        ),
    ],
    ids=["regions", "ConVIRT", "studies", "small crops"],
)
def test_an_update_with_other_settings_stays_on_the_gpu(image_text, sections):
    image_text({"name": "cl", "directions": "both"}, **sections)


def wait_for_a_value(loss):
    return loss * loss.item()


def decide_by_a_value(loss):
    return loss if loss > 0 else -loss


def select_by_a_mask(loss):
    anchors = loss.expand(4)
    return anchors[anchors > 0].mean()


def find_the_nonzero(loss):
    return loss + loss.expand(4).nonzero().sum()


def add_what_lies_on_the_cpu(loss):
    return (loss + torch.zeros(2)).sum()


def copy_to_the_cpu(loss):
    return loss + loss.detach().cpu().sum().to(loss.device)


FAULTS = [
    wait_for_a_value,
    decide_by_a_value,
    select_by_a_mask,
    find_the_nonzero,
    add_what_lies_on_the_cpu,
    copy_to_the_cpu,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_step_that_leaves_the_gpu_is_detected(monkeypatch, fault):
    without_driver(monkeypatch)
    with pretended_gpu():
        weight = nn.Parameter(torch.ones((), device=GPU))
        (weight * 2).backward()
        assert weight.grad.device.type == "cuda"
        with pytest.raises((AssertionError, RuntimeError, NotImplementedError)):
            fault(weight * 2)
