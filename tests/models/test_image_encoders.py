"""Encoders match torchvision's residual networks; those without a counterpart have the documented
properties.
"""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional

from trueneg.models.image_encoders import ENCODERS, StridedPointwise, build_encoder, small_resnet
from trueneg.models.projection import ProjectionHead


def torchvision_resnet(name: str) -> nn.Module:
    """Return torchvision's network with the stem for CIFAR, up to the pooled features."""
    from torchvision.models import get_model

    network = get_model(name)
    network.conv1 = nn.Conv2d(3, 64, 3, stride=1, padding=1, bias=False)
    network.maxpool = nn.Identity()
    network.fc = nn.Identity()
    return network


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_resnets_match_torchvisions_weights_features_and_gradients(name, training):
    torch.manual_seed(0)
    reference = torchvision_resnet(name).double().train(training)
    encoder = build_encoder(name, in_channels=3).double().train(training)
    assert list(encoder.state_dict()) == list(reference.state_dict())
    encoder.load_state_dict(reference.state_dict())
    images = torch.randn(4, 3, 16, 16, dtype=torch.float64)
    features, expected = encoder(images), reference(images)
    torch.testing.assert_close(features, expected, rtol=1e-10, atol=1e-12)
    features.square().sum().backward()
    expected.square().sum().backward()
    for (name, parameter), other in zip(
        encoder.named_parameters(), reference.parameters(), strict=True
    ):
        torch.testing.assert_close(
            parameter.grad, other.grad, rtol=1e-8, atol=1e-10, msg=lambda m, name=name: name + m
        )


def test_resnet18_uses_he_initialisation():
    torch.manual_seed(0)
    encoder = build_encoder("resnet18", in_channels=3)
    for name, module in encoder.named_modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * module.kernel_size[0] * module.kernel_size[1]
            expected, found = (2 / fan_out) ** 0.5, module.weight.std().item()
            assert abs(found / expected - 1) < 5 / module.weight.numel() ** 0.5, name


@pytest.mark.parametrize(
    ("name", "dimensions"), [("resnet18", 512), ("resnet50", 2048), ("small_resnet", 64)]
)
@pytest.mark.parametrize(("channels", "side"), [(1, 8), (3, 32), (2, 9)])
def test_encoders_accept_any_channels_and_sizes(name, dimensions, channels, side):
    encoder = build_encoder(name, in_channels=channels).eval()
    features = encoder(torch.randn(2, channels, side, side))
    assert features.shape == (2, dimensions) == (2, encoder.dimensions)


def test_every_registered_encoder_is_tested_here():
    assert set(ENCODERS) == {"resnet18", "resnet50", "small_resnet"}


def test_small_resnet_has_three_stages():
    encoder = small_resnet(in_channels=1, width=8)
    shapes = []
    for stage in (encoder.layer1, encoder.layer2, encoder.layer3):
        stage.register_forward_hook(
            lambda module, inputs, output: shapes.append(tuple(output.shape[1:]))
        )
    encoder(torch.zeros(1, 1, 8, 8))
    assert shapes == [(8, 8, 8), (16, 4, 4), (32, 2, 2)]
    assert len(encoder.layer1) == len(encoder.layer2) == len(encoder.layer3) == 1


def test_channels_last_gives_the_same_features():
    torch.manual_seed(0)
    encoder = small_resnet(in_channels=3, width=8)
    images = torch.randn(4, 3, 12, 12)
    expected = encoder(images)
    encoder.to(memory_format=torch.channels_last)
    torch.testing.assert_close(
        encoder(images.contiguous(memory_format=torch.channels_last)), expected
    )


@pytest.mark.long
def test_gradients_of_narrow_networks_match_a_float64_reference():
    """In a separate process, because oneDNN's backward pass of narrow strided convolutions can
    corrupt the heap.
    """
    done = subprocess.run(
        [sys.executable, "-m", "tests.models.narrow_networks"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    differences = json.loads(done.stdout)
    assert len(differences) == 2 * 4 * 2  # encoders, widths, sides
    assert max(differences.values()) < 1e-4, differences  # measured: 4e-5


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("side", [1, 6, 7])
def test_strided_pointwise_convolutions_match_torch(stride, side):
    torch.manual_seed(0)
    layer, reference = StridedPointwise(3, 5, stride), nn.Conv2d(3, 5, 1, stride, bias=False)
    reference.load_state_dict(layer.state_dict())
    images = torch.randn(2, 3, side, side + 1)
    torch.testing.assert_close(layer(images), reference(images))


@pytest.mark.parametrize("batch_norm", [True, False])
def test_projection_head_is_linear_norm_relu_linear(batch_norm):
    torch.manual_seed(0)
    head = ProjectionHead(6, hidden=5, out=3, batch_norm=batch_norm).double()
    features = torch.randn(7, 6, dtype=torch.float64)
    first, last = head[0], head[-1]
    hidden = features @ first.weight.T
    if batch_norm:
        assert first.bias is None
        hidden = (hidden - hidden.mean(0)) / (hidden.var(0, unbiased=False) + 1e-5).sqrt()
    else:
        hidden = hidden + first.bias
    torch.testing.assert_close(head(features), functional.relu(hidden) @ last.weight.T + last.bias)
