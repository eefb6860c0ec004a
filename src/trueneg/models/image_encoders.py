"""Residual networks that turn images into feature vectors."""

from collections.abc import Sequence

from torch import Tensor, nn
from torch.nn import functional
from torchvision.models.resnet import BasicBlock, Bottleneck


class StridedPointwise(nn.Conv2d):
    """A 1×1 convolution with a stride and no bias, computed as one of stride 1 on every ``stride``-th pixel.

    The result, the parameter's name and its shape are those of ``nn.Conv2d(in_channels, channels, 1, stride, bias=False)``. With
    8 input channels or fewer, channels last and at least 48 × 48 pixels, oneDNN's own backward of that convolution writes out of
    bounds on CPUs with AVX-512 (torch 2.14 and 2.15); slicing first is as fast and avoids it.

    Args:
        in_channels: channels of the input (B, in_channels, H, W).
        channels: channels of the output (B, channels, ⌈H/stride⌉, ⌈W/stride⌉).
        stride: distance between the pixels that are kept.
    """

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__(in_channels, channels, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        step = self.stride[0]
        return functional.conv2d(x[:, :, ::step, ::step], self.weight)


def residual_block(block: type[BasicBlock | Bottleneck], in_channels: int, channels: int, stride: int = 1) -> nn.Module:
    """Torchvision's block from `in_channels` to `channels`, with a :class:`StridedPointwise` in its shortcut."""
    shortcut = None
    if stride != 1 or in_channels != channels:
        shortcut = nn.Sequential(StridedPointwise(in_channels, channels, stride), nn.BatchNorm2d(channels))
    return block(in_channels, channels // block.expansion, stride, shortcut)


def initialise(network: nn.Module) -> None:
    """Convolutions as in He et al. (2015): normal, by fan-out."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class ResNet(nn.Module):
    """A residual network (He et al., 2016) for small images: 3×3 stem, no max-pooling, stages of blocks, global average.

    The first stage keeps the resolution, each further stage halves it. Blocks, initial weights and parameter names are
    torchvision's.

    Args:
        in_channels: channels of the images.
        widths: channels of each stage.
        blocks: how many blocks each stage has; one number for all, or one a stage.
        block: torchvision's, basic or bottleneck.
        stem: channels of the first convolution; None: as many as the first stage.

    Attributes:
        dimensions: size D of a feature vector.

    Example:
        >>> encoder = ResNet(in_channels=3, widths=(8, 16), blocks=1)
        >>> encoder(torch.zeros(2, 3, 32, 32)).shape, encoder.dimensions
        (torch.Size([2, 16]), 16)
    """

    def __init__(
        self,
        in_channels: int,
        widths: Sequence[int],
        blocks: int | Sequence[int],
        block: type[BasicBlock | Bottleneck] = BasicBlock,
        stem: int | None = None,
    ) -> None:
        super().__init__()
        self.dimensions = widths[-1]
        before = stem or widths[0]
        self.conv1 = nn.Conv2d(in_channels, before, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(before)
        self.stages = []
        counts = [blocks] * len(widths) if isinstance(blocks, int) else blocks
        for number, (width, count) in enumerate(zip(widths, counts, strict=True), start=1):
            first = residual_block(block, before, width, stride=1 if number == 1 else 2)
            rest = [residual_block(block, width, width) for _ in range(count - 1)]
            self.add_module(f"layer{number}", nn.Sequential(first, *rest))
            self.stages.append(f"layer{number}")
            before = width
        initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        """Features (B, D) of normalised images (B, C, H, W)."""
        x = functional.relu(self.bn1(self.conv1(images)), inplace=True)
        for stage in self.stages:
            x = getattr(self, stage)(x)
        return x.mean(dim=(-2, -1))


def resnet18(in_channels: int) -> ResNet:
    """ResNet-18 in its CIFAR form: widths 64, 128, 256, 512, two blocks each; D = 512."""
    return ResNet(in_channels, widths=(64, 128, 256, 512), blocks=2)


def resnet50(in_channels: int) -> ResNet:
    """ResNet-50 in its CIFAR form: bottlenecks to 256, 512, 1,024, 2,048 channels, 3, 4, 6 and 3 of them; D = 2,048."""
    return ResNet(in_channels, widths=(256, 512, 1024, 2048), blocks=(3, 4, 6, 3), block=Bottleneck, stem=64)


def small_resnet(in_channels: int, width: int = 16) -> ResNet:
    """Three stages of one block each, ``width``, 2·``width`` and 4·``width`` wide; D = 4·``width``."""
    return ResNet(in_channels, widths=(width, 2 * width, 4 * width), blocks=1)


ENCODERS = {"resnet18": resnet18, "resnet50": resnet50, "small_resnet": small_resnet}


def build_encoder(name: str, in_channels: int, **options) -> nn.Module:
    """The encoder that a name in a config stands for.

    Args:
        name: a key of ``ENCODERS``.
        in_channels: channels of the images.
        options: the encoder's own, such as ``width`` of ``small_resnet``.

    Returns:
        A module that maps float images (B, in_channels, H, W) to features (B, D); D is its ``dimensions``.

    Example:
        >>> build_encoder("small_resnet", in_channels=1, width=8).dimensions
        32
    """
    return ENCODERS[name](in_channels, **options)
