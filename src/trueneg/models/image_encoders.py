"""Residual networks that map images to feature vectors."""

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.resnet import BasicBlock, Bottleneck

Block = type[BasicBlock | Bottleneck]


class StridedPointwise(nn.Conv2d):
    """Strided 1×1 convolution without bias, computed as a stride-1 convolution on every
    ``stride``-th pixel.

    The result and the parameter's name and shape match ``nn.Conv2d(in_channels, channels, 1,
    stride, bias=False)``. With at most 8 input channels, the channels-last format and at least 48 ×
    48 pixels, oneDNN's backward pass for that convolution writes out of bounds on CPUs with AVX-512
    (torch 2.14 and 2.15). Slicing first is as fast and avoids the bug.

    Args:
        in_channels: channels of the input (B, in_channels, H, W).
        channels: channels of the output (B, channels, ⌈H/stride⌉, ⌈W/stride⌉).
        stride: distance between sampled pixels.
    """

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__(in_channels, channels, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        step = self.stride[0]
        return functional.conv2d(x[:, :, ::step, ::step], self.weight)


def residual_block(block: Block, in_channels: int, channels: int, stride: int = 1) -> nn.Module:
    """Build torchvision's block from `in_channels` to `channels`, with a :class:`StridedPointwise`
    in its shortcut.
    """
    shortcut = None
    if stride != 1 or in_channels != channels:
        shortcut = nn.Sequential(
            StridedPointwise(in_channels, channels, stride), nn.BatchNorm2d(channels)
        )
    return block(in_channels, channels // block.expansion, stride, shortcut)


def initialise(network: nn.Module) -> None:
    """Initialise convolutions from a normal distribution scaled by fan-out (He et al., 2015)."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class ResNet(nn.Sequential):
    """Residual network (He et al., 2016) for small images: 3×3 stem, no max-pooling, stages of
    blocks, global average pooling.

    The first stage keeps the resolution; each later stage halves it. The blocks, weight
    initialisation and parameter names are those of torchvision.

    Args:
        in_channels: channels of the images.
        widths: channels of each stage.
        blocks: number of blocks in each stage.
        block: torchvision's basic or bottleneck block.
        stem: channels of the first convolution; None: the same as the first stage.

    Attributes:
        dimensions: D, size of a feature vector.

    Example:
        >>> encoder = ResNet(in_channels=3, widths=(8, 16), blocks=(1, 1))
        >>> encoder(torch.zeros(2, 3, 32, 32)).shape, encoder.dimensions
        (torch.Size([2, 16]), 16)
    """

    def __init__(
        self,
        in_channels: int,
        widths: Sequence[int],
        blocks: Sequence[int],
        block: Block = BasicBlock,
        stem: int | None = None,
    ) -> None:
        before = stem or widths[0]
        layers: dict[str, nn.Module] = {
            "conv1": nn.Conv2d(in_channels, before, 3, padding=1, bias=False)
        }
        layers |= {"bn1": nn.BatchNorm2d(before), "relu": nn.ReLU(inplace=True)}
        for number, (width, count) in enumerate(zip(widths, blocks, strict=True), start=1):
            first = residual_block(block, before, width, stride=1 if number == 1 else 2)
            layers[f"layer{number}"] = nn.Sequential(
                first, *(residual_block(block, width, width) for _ in range(count - 1))
            )
            before = width
        super().__init__(OrderedDict(layers))
        self.dimensions = before
        initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        """Return features (B, D) of normalised images (B, C, H, W)."""
        return super().forward(images).mean(dim=(-2, -1))


def resnet18(in_channels: int) -> ResNet:
    """Build the CIFAR variant of ResNet-18: widths 64, 128, 256, 512, two blocks each; D = 512."""
    return ResNet(in_channels, widths=(64, 128, 256, 512), blocks=(2, 2, 2, 2))


def resnet50(in_channels: int) -> ResNet:
    """Build the CIFAR variant of ResNet-50: 3, 4, 6 and 3 bottlenecks with 256, 512, 1,024 and
    2,048 channels; D = 2,048.
    """
    return ResNet(
        in_channels, widths=(256, 512, 1024, 2048), blocks=(3, 4, 6, 3), block=Bottleneck, stem=64
    )


def small_resnet(in_channels: int, width: int = 16) -> ResNet:
    """Build a ResNet with three one-block stages of ``width``, 2·``width`` and 4·``width``
    channels; D = 4·``width``.
    """
    return ResNet(in_channels, widths=(width, 2 * width, 4 * width), blocks=(1, 1, 1))


ENCODERS = {"resnet18": resnet18, "resnet50": resnet50, "small_resnet": small_resnet}


def build_encoder(name: str, in_channels: int, **options) -> nn.Module:
    """Build the encoder with the given config name.

    Args:
        name: a key of ``ENCODERS``.
        in_channels: channels of the images.
        options: encoder-specific options, such as ``width`` for ``small_resnet``.

    Returns:
        A module that maps float images (B, in_channels, H, W) to features (B, D), where D is its
            ``dimensions``.

    Example:
        >>> build_encoder("small_resnet", in_channels=1, width=8).dimensions
        32
    """
    return ENCODERS[name](in_channels, **options)
