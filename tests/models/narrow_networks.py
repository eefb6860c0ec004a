"""Train narrow encoders on a CPU in a separate process, because a fault in a native library would
end it.

``python -m tests.models.narrow_networks`` prints as JSON, by encoder, width and side: the largest
relative difference of a parameter's gradient from that of a float64 network with torch's strided
convolutions. SiLU stands in for ReLU in both, because a rounding error near ReLU's kink switches a
whole path on or off.
"""

import copy
import itertools
import json

import torch
from torch import nn
from torch.nn import functional

from trueneg.models.image_encoders import StridedPointwise, small_resnet
from trueneg.models.spatial_encoders import SmallSpatialResNet

WIDTHS, SIDES = (4, 8, 12, 16), (48, 64)
ENCODERS = {
    "small_resnet": small_resnet,
    "small": lambda channels, width: SmallSpatialResNet(width, channels),
}
BATCH, REPEATS = 32, 3


def with_strided_convolutions(network: nn.Module) -> nn.Module:
    """Return a float64 copy whose shortcuts are torch's convolutions with stride 2."""
    network = copy.deepcopy(network).double()
    for parent in list(network.modules()):
        for name, layer in parent.named_children():
            if isinstance(layer, StridedPointwise):
                own = nn.Conv2d(
                    layer.in_channels,
                    layer.out_channels,
                    1,
                    layer.stride,
                    bias=False,
                    dtype=torch.float64,
                )
                own.load_state_dict(layer.state_dict())
                setattr(parent, name, own)
    return network


def gradients(network: nn.Module, images: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return gradients of features times factors that differ by image: batch norm cancels a common
    factor.
    """
    network.zero_grad()
    features = network(images).flatten(1)
    factors = torch.randn(
        features.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    (features * factors.to(features)).sum().backward()
    return {name: parameter.grad.double() for name, parameter in network.named_parameters()}


def difference(name: str, width: int, side: int) -> float:
    """Return the largest error over parameters and repeats, relative to the norm of the reference
    gradient.
    """
    torch.manual_seed(width * side)
    network = ENCODERS[name](3, width=width)
    # gradients of similar images would cancel
    images = torch.randn(BATCH, 3, side, side) + torch.randn(BATCH, 3, 1, 1)
    expected = gradients(with_strided_convolutions(network), images.double())
    network, images = (
        network.to(memory_format=torch.channels_last),
        images.contiguous(memory_format=torch.channels_last),
    )
    found = [gradients(network, images) for _ in range(REPEATS)]
    return max(
        float((one[key] - value).norm() / value.norm())
        for one in found
        for key, value in expected.items()
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    functional.relu = functional.silu
    cases = itertools.product(ENCODERS, WIDTHS, SIDES)
    print(
        json.dumps(
            {f"{name} {width} {side}": difference(name, width, side) for name, width, side in cases}
        )
    )
