"""Features do not depend on batches, and extracting them does not modify the encoder."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from trueneg.errors import UserError
from trueneg.evaluation.features import extract_features
from trueneg.evaluation.pair_features import embed_texts
from trueneg.models.towers.tower import Embedded


def encoder_with_state():
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.5), nn.Flatten(), nn.LazyLinear(5)
    )
    encoder(torch.rand(16, 3, 6, 6))  # running statistics that differ from a batch's own
    return encoder


def normalise(images):
    return images.float() / 255 - 0.5


def random_images(count):
    return torch.randint(
        256, (count, 3, 6, 6), dtype=torch.uint8, generator=torch.Generator().manual_seed(1)
    )


@pytest.mark.parametrize("batch_size", [1, 7, 20, 512])
def test_features_do_not_depend_on_the_batch(batch_size):
    encoder, images = encoder_with_state(), random_images(20)
    features = extract_features(encoder, normalise, images, batch_size)
    encoder.eval()
    expected = torch.cat([encoder(normalise(image.unsqueeze(0))) for image in images])
    torch.testing.assert_close(features, expected.detach(), rtol=1e-5, atol=1e-6)


def test_feature_extraction_does_not_update_batch_statistics():
    encoder = encoder_with_state().train()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    extract_features(encoder, normalise, random_images(4))
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())


def test_images_are_passed_in_channels_last_format():
    seen = []
    encoder = nn.Flatten()
    encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    extract_features(encoder, normalise, random_images(4))
    assert seen[0].is_contiguous(memory_format=torch.channels_last)


def test_a_classifier_can_be_trained_on_the_features():
    features = extract_features(encoder_with_state(), normalise, random_images(6))
    assert (features.dtype, features.requires_grad) == (torch.float32, False)
    weights = torch.zeros(5, 2, requires_grad=True)
    (features @ weights).sum().backward()
    torch.testing.assert_close(weights.grad, features.sum(0).unsqueeze(1).expand(5, 2))


def test_features_of_a_diverged_encoder_raise_an_error():
    with pytest.raises(ValueError, match="diverged"):
        extract_features(
            nn.Flatten(), lambda images: normalise(images) * torch.nan, random_images(2)
        )


def test_texts_without_finite_embeddings_are_counted():
    vectors = torch.tensor([[1.0, 0.0], [0.0, torch.inf], [torch.nan, 0.0]])
    side = SimpleNamespace(prefix="", inputs=lambda *_: lambda block: {"batch": vectors[block]})
    model = SimpleNamespace(embed=lambda _, batch: Embedded(batch, None))
    with pytest.raises(UserError, match="2 of 3 texts"):
        embed_texts(model, side, ["a", "b", "c"], torch.device("cpu"))
    assert embed_texts(model, side, ["a"], torch.device("cpu")).tolist() == [[1, 0]]
