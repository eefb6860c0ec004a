"""The linear probe of image encoders on augmented images, against a loop in the form of the public
code of DCL, HCL and BCL.
"""

import copy
import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from trueneg.data.images.image_source import ImageSource
from trueneg.data.images.subsets import make_subset
from trueneg.errors import UserError
from trueneg.evaluation.images import EncodedRun, augmented_linear_probe
from trueneg.models.image_encoders import build_encoder
from trueneg.randomness import seed_for
from trueneg.training.augment import build_augmentation

NAMES = ("red", "green", "blue")
OPTIONS = {
    "epochs": 3,
    "batch_size": 16,
    "learning_rate": 0.01,
    "weight_decay": 1e-3,
    "label_fractions": [1.0],
    "label_pools": ["all"],
    "update_batch_norm": True,
}


@pytest.fixture(scope="module")
def run():
    """An encoder with new weights, trained on views of 8 pixels, and noisy images of 12 pixels
    whose class is their colour.
    """
    pixels = np.random.default_rng(0).integers(0, 200, (120, 3, 12, 12), np.uint8)
    labels = np.arange(120) % 3
    pixels[np.arange(120), labels] += 55
    source = ImageSource("colours", pixels, labels, np.arange(120) < 45, NAMES)
    torch.manual_seed(0)
    encoder = build_encoder("small_resnet", in_channels=3, width=4)
    augmentation = build_augmentation(
        {"name": "color", "size": 8, "blur": 0.5}, [0.4] * 3, [0.2] * 3
    )
    subset = make_subset(source, seed=0, validation=0)
    return EncodedRun(
        "abc", subset, source, torch.zeros(120, 16), torch.from_numpy(labels), encoder, augmentation
    )


def measured(run, **changes):
    rows = augmented_linear_probe.measure([run], {"augmented_linear_probe": OPTIONS | changes})
    return {
        (split, *row[3:4], row.group): float(value)
        for _, split, row, value in rows
        if row.metric == "accuracy"
    }


def trained_by_a_plain_loop(run, update_batch_norm):
    """Train the classifier as ``linear.py`` does; return its accuracy on whole test images, and the
    changed encoder.
    """
    generator = torch.Generator().manual_seed(seed_for(0, "augmented linear probe"))
    encoder, labels = copy.deepcopy(run.encoder), torch.from_numpy(run.source.labels)
    bound = 1 / math.sqrt(encoder.dimensions)
    weight = (
        torch.empty(3, encoder.dimensions)
        .uniform_(-bound, bound, generator=generator)
        .requires_grad_()
    )
    bias = torch.empty(3).uniform_(-bound, bound, generator=generator).requires_grad_()
    optimizer = torch.optim.Adam([weight, bias], lr=0.01, weight_decay=1e-3)
    for _ in range(3):
        order = torch.randperm(75, generator=generator)
        parameters = run.augmentation.draw(75, (12, 12), generator)
        for part in (slice(0, 15), slice(15, 30), slice(30, 45), slice(45, 60), slice(60, 75)):
            chosen = torch.from_numpy(run.subset.pool)[order[part]]
            encoder.train() if update_batch_norm else encoder.eval()
            with torch.no_grad():
                features = encoder(
                    run.augmentation(torch.from_numpy(run.source.images)[chosen], parameters[part])
                )
            optimizer.zero_grad()
            functional.cross_entropy(features @ weight.T + bias, labels[chosen]).backward()
            optimizer.step()
    whole = (torch.from_numpy(run.source.images[run.subset.test]) / 255 - 0.4) / 0.2
    with torch.no_grad():
        logits = encoder.eval()(whole) @ weight.T + bias
    return (logits.argmax(1) == labels[run.subset.test]).double().mean().item(), encoder


@pytest.mark.parametrize("update_batch_norm", [True, False])
def test_the_accuracy_is_that_of_a_plain_loop_with_and_without_new_batch_statistics(
    run, update_batch_norm
):
    expected, encoder = trained_by_a_plain_loop(run, update_batch_norm)
    before = copy.deepcopy(run.encoder.state_dict())
    assert measured(run, update_batch_norm=update_batch_norm)["test", 1.0, None] == pytest.approx(
        expected
    )
    assert all(torch.equal(before[name], value) for name, value in run.encoder.state_dict().items())
    assert (
        torch.equal(before["bn1.running_mean"], encoder.state_dict()["bn1.running_mean"])
        != update_batch_norm
    )
    # otherwise nothing is compared
    assert expected != trained_by_a_plain_loop(run, not update_batch_norm)[0]


def test_it_classifies_images_and_augmentation_makes_that_harder(run):
    still = run._replace(augmentation=build_augmentation({"name": "none"}, [0.4] * 3, [0.2] * 3))
    with_augmentation, without = (
        measured(each, epochs=60, learning_rate=0.1)["test", 1.0, None] for each in (run, still)
    )
    assert without > 0.7  # chance is 1/3
    assert with_augmentation < without


def test_fractions_of_the_labels_are_measured_on_the_test_split_alone(run):
    rows = measured(run, label_fractions=[1.0, 0.2])
    assert {row[:2] for row in rows} == {("test", 0.2), ("test", 1.0)}
    assert {group for _, _, group in rows} == {None, "macro", "common", *NAMES}


def test_a_learning_rate_that_is_too_large_raises_an_error_with_a_remedy(run):
    with pytest.raises(
        UserError, match=r"fraction of 1 diverged \(seed 0\).*learning_rate.*1e\+30"
    ):
        measured(run, learning_rate=1e30)
