"""Fine-tuning and the augmented linear probe: effects, side effects, and equivalence with the
linear probe.
"""

import copy
import dataclasses

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given, settings

from tests.textures import TEXTURES, settings_of, texture_source
from trueneg.data.pairs.pair_splits import split_pairs
from trueneg.errors import UserError
from trueneg.evaluation.linear_heads import known_binary_cross_entropy, train_linear_heads
from trueneg.evaluation.pairs import EmbeddedPairs
from trueneg.evaluation.pairs.fine_tuning import fine_tuned_scores
from trueneg.evaluation.pairs.linear_probe import multilabel_subset
from trueneg.evaluation.roc import areas_by_class
from trueneg.randomness import seed_for
from trueneg.training.image_text import ImageText
from trueneg.training.radiograph_augmentation import RadiographAugmentation

CPU = torch.device("cpu")
SOURCE = texture_source(patients=120)
SUBSET = split_pairs(SOURCE, 0, validation=0.1, test=0.3)
LABELS = SOURCE.labels[SUBSET.train]
OPTIONS = {
    "fractions": [1.0],
    "epochs": 2,
    "batch_size": 16,
    "learning_rate": 3e-3,
    "weight_decay": 1e-6,
}


@pytest.fixture(scope="module")
def networks():
    """Untrained networks whose batch normalisation has running statistics of the training
    images.
    """
    model = ImageText(settings_of(), 0, SOURCE, SUBSET, CPU).networks
    model.model.train()
    with torch.no_grad():
        for _ in range(20):
            model.model.image_encoder(
                model.columns.augmentation.normalise(torch.from_numpy(SOURCE.images[SUBSET.train]))
            )
    model.model.eval()
    return model


def every_score(networks, labels=LABELS, frozen=False, indices=SUBSET.train, seed=0, **changes):
    """Return scores by fraction and split, with the given labels of the training images."""
    known = SOURCE.labels.copy()
    known[indices] = labels
    source = dataclasses.replace(SOURCE, labels=known)
    subset = dataclasses.replace(SUBSET, seed=seed, train=indices, source_checksum=source.checksum)
    run = EmbeddedPairs("abc", networks, source, subset, CPU)
    return fine_tuned_scores(run, TEXTURES, OPTIONS | changes, frozen=frozen)


def scores(networks, labels=LABELS, **changes):
    """Return scores of the test images, by classifiers trained on all labels."""
    return every_score(networks, labels, **changes)[1.0]["test"]


def mean_area(found):
    return areas_by_class(found, SOURCE.labels[SUBSET.test], TEXTURES)["mean"]


def test_fine_tuning_trains_a_classifier_from_an_untrained_encoder(networks):
    before = mean_area(scores(networks, epochs=1, learning_rate=1e-12))
    assert before < 0.7
    assert mean_area(scores(networks, epochs=15)) > 0.95


def test_fine_tuning_depends_on_the_seed_but_not_on_the_global_generator(networks):
    torch.manual_seed(1)
    first, state = scores(networks), torch.random.get_rng_state()
    torch.manual_seed(2)
    np.testing.assert_array_equal(scores(networks), first)
    torch.manual_seed(1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert not np.array_equal(scores(networks, seed=1), first)


@pytest.mark.parametrize("frozen", [False, True])
def test_fine_tuning_does_not_modify_the_run(networks, frozen):
    model = networks.model
    before = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    learning = [parameter.requires_grad for parameter in model.parameters()]
    scores(networks, frozen=frozen)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == learning
    assert all(parameter.grad is None for parameter in model.parameters())


def test_with_a_frozen_encoder_and_no_augmentation_it_matches_the_linear_probe(networks):
    """All images are in one batch, so that their order does not matter."""
    statistics = (
        networks.columns.augmentation.mean.flatten().tolist(),
        networks.columns.augmentation.std.flatten().tolist(),
    )
    still = RadiographAugmentation(*statistics, 1.0, 0.0, 0.0)
    labels = LABELS.copy()
    labels[::7, 1] = np.nan
    options = {"epochs": 30, "batch_size": len(labels), "learning_rate": 0.01, "weight_decay": 1e-3}
    found = scores(with_augmentation(networks, still), labels, frozen=True, **options)
    with torch.no_grad():
        features, held_out = (
            networks.model.image_encoder(
                still.normalise(torch.from_numpy(SOURCE.images[part]))
            ).mean((2, 3))
            for part in (SUBSET.train, SUBSET.test)
        )
    seeds = [seed_for(0, "fine-tuning")]
    bank = [features], [torch.from_numpy(labels)]
    heads = train_linear_heads(
        *bank, len(TEXTURES), known_binary_cross_entropy, seeds=seeds, **options
    )
    np.testing.assert_allclose(found, heads.logits([held_out])[0].numpy(), rtol=0, atol=1e-4)


def test_a_frozen_encoder_scores_lower_and_still_uses_augmentation(networks):
    found = scores(networks, frozen=True, epochs=5)
    assert not np.array_equal(
        scores(with_augmentation(networks, _weaker(networks)), frozen=True, epochs=5), found
    )
    assert mean_area(found) < mean_area(scores(networks, epochs=5))


def with_augmentation(networks, augmentation):
    """Return the networks with another augmentation of images."""
    columns = copy.copy(networks.columns)
    columns.augmentation = augmentation
    return networks._replace(columns=columns)


def _weaker(networks):
    changed = copy.deepcopy(networks.columns.augmentation)
    changed.jitter = (0.0, 0.0)
    return changed


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 1000))
def test_the_loss_is_the_mean_over_known_labels(count, classes, seed):
    generator = np.random.default_rng(seed)
    labels = generator.choice([0.0, 1.0, np.nan], size=(count, classes))
    logits = 3 * generator.standard_normal((count, classes))
    terms = [
        -np.log(1 / (1 + np.exp(-logit if label else logit)))
        for logit, label in zip(logits.flat, labels.flat, strict=True)
        if not np.isnan(label)
    ]
    found = known_binary_cross_entropy(
        torch.from_numpy(logits).requires_grad_().mT, torch.from_numpy(labels)
    )
    assert found.item() == pytest.approx(np.mean(terms) if terms else 0)
    found.backward()  # also without known labels


def test_unknown_labels_have_no_effect(networks):
    """A class without known labels is changed only by weight decay."""
    unknown = LABELS.copy()
    unknown[:, 1] = np.nan
    found = scores(networks, unknown, frozen=True, weight_decay=0.0, learning_rate=0.05)
    first = scores(networks, unknown, frozen=True, weight_decay=0.0, learning_rate=1e-30)
    np.testing.assert_array_equal(found[:, 1], first[:, 1])
    assert np.abs(found[:, 0] - first[:, 0]).min() > 0


def test_a_fraction_uses_only_its_subset(networks):
    """Training on the subset alone gives the same scores."""
    kept = multilabel_subset(LABELS, 0.1, seed=0)
    assert len(kept) < 0.25 * len(LABELS)
    few = scores(networks, LABELS[kept], indices=SUBSET.train[kept])
    both = every_score(networks, fractions=[0.1, 1.0])
    np.testing.assert_array_equal(both[0.1]["test"], few)
    np.testing.assert_array_equal(both[1.0]["test"], scores(networks))


def test_batches_have_nearly_equal_size_and_contain_each_image_once(networks):
    sizes = []
    handle = networks.model.image_encoder.register_forward_hook(
        lambda module, given, out: sizes.append(len(given[0])) if module.training else None
    )
    chosen, labels = SUBSET.train[:33], LABELS[:33]
    try:
        scores(networks, labels, indices=chosen)
    finally:
        handle.remove()
    assert sizes == [11, 11, 11] * 2


def test_held_out_images_are_scored_on_central_crops_in_evaluation_mode(networks):
    """An untrained classifier scores the features of central crops, independently of the split's
    other images.
    """
    found = every_score(networks, frozen=True, learning_rate=1e-30, weight_decay=0.0)[1.0]
    head = torch.nn.Linear(networks.model.image_encoder.dimensions, len(TEXTURES))
    generator = torch.Generator().manual_seed(seed_for(0, "fine-tuning"))
    with torch.no_grad():
        for parameter in head.parameters():
            torch.nn.init.uniform_(
                parameter, -(head.in_features**-0.5), head.in_features**-0.5, generator=generator
            )
        for split, scored in found.items():
            for image, own in zip(getattr(SUBSET, split), scored, strict=True):
                pixels = networks.columns.augmentation.normalise(
                    torch.from_numpy(SOURCE.images[[image]])
                )
                expected = head(networks.model.image_encoder(pixels).mean((2, 3)))[0]
                np.testing.assert_allclose(own, expected, atol=1e-5)


def test_a_learning_rate_that_is_too_large_raises_an_error_with_a_remedy(networks):
    with pytest.raises(
        UserError, match=r"fraction of 1 diverged \(seed 0\).*learning_rate.*1e\+30"
    ):
        scores(networks, learning_rate=1e30)
