"""Residual networks that turn images into feature vectors."""

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


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


class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a shortcut: relu(shortcut(x) + bn(conv(relu(bn(conv(x)))))).

    The basic block of He et al. (2016), with the parameter names of torchvision's.

    Args:
        in_channels: channels of the input (B, in_channels, H, W).
        channels: channels of the output (B, channels, ⌈H/stride⌉, ⌈W/stride⌉).
        stride: of the first convolution and of the shortcut.
    """

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or in_channels != channels:
            self.downsample = nn.Sequential(StridedPointwise(in_channels, channels, stride), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        return functional.relu(self.bn2(self.conv2(out)).add_(shortcut), inplace=True)


class Bottleneck(nn.Module):
    """1×1, 3×3 and 1×1 convolutions and a shortcut; the 3×3 one has a quarter of the channels, and the stride.

    The bottleneck block of He et al. (2016) with the stride where torchvision has it, and torchvision's parameter names.

    Args:
        in_channels: channels of the input (B, in_channels, H, W).
        channels: channels of the output (B, channels, ⌈H/stride⌉, ⌈W/stride⌉), a multiple of 4.
        stride: of the 3×3 convolution and of the shortcut.
    """

    def __init__(self, in_channels: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        narrow = channels // 4
        self.conv1 = nn.Conv2d(in_channels, narrow, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(narrow)
        self.conv2 = nn.Conv2d(narrow, narrow, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(narrow)
        self.conv3 = nn.Conv2d(narrow, channels, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or in_channels != channels:
            self.downsample = nn.Sequential(StridedPointwise(in_channels, channels, stride), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        out = functional.relu(self.bn1(self.conv1(x)), inplace=True)
        out = functional.relu(self.bn2(self.conv2(out)), inplace=True)
        return functional.relu(self.bn3(self.conv3(out)).add_(shortcut), inplace=True)


class ResNet(nn.Module):
    """A residual network for small images: 3×3 stem, no max-pooling, stages of residual blocks, global average.

    The first stage keeps the resolution, each further stage halves it. Weights start as in He et al. (2015): normal,
    by fan-out; batch norms start as the identity. Torchvision's start, and its parameter names, are the same.

    Args:
        in_channels: channels of the images.
        widths: channels of each stage.
        blocks: how many blocks each stage has; one number for all, or one a stage.
        block: :class:`BasicBlock` or :class:`Bottleneck`.
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
        block: type[BasicBlock] | type[Bottleneck] = BasicBlock,
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
            first = block(before, width, stride=1 if number == 1 else 2)
            rest = [block(width, width) for _ in range(count - 1)]
            self.add_module(f"layer{number}", nn.Sequential(first, *rest))
            self.stages.append(f"layer{number}")
            before = width
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

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


ENCODERS = {
    "resnet18": resnet18,
    "resnet50": resnet50,
    "small_resnet": small_resnet,
}


def build_encoder(name: str, in_channels: int, **options) -> nn.Module:
    """The encoder that a name in a config stands for.

    Args:
        name: a key of ``ENCODERS``.
        in_channels: channels of the images.
        options: the encoder's own, such as ``width`` of ``small_resnet``.

    Returns:
        A module that maps float images (B, in_channels, H, W) to features (B, D); D is its ``dimensions``.

    Raises:
        ValueError: if no encoder has this name.

    Example:
        >>> build_encoder("small_resnet", in_channels=1, width=8).dimensions
        32
    """
    if name not in ENCODERS:
        raise ValueError(f"encoder is {name!r}, expected one of {', '.join(ENCODERS)}")
    return ENCODERS[name](in_channels, **options)


def forward_flops(encoder: nn.Module, input_shape: Sequence[int]) -> int:
    """Floating-point operations of a forward pass, for estimates of time: convolutions and linear layers only.

    A multiply-add counts as two. A training step takes about three times as many (forward, and two products a layer
    backward). Nothing is computed: only shapes are followed, so that a large encoder costs no time or memory.

    Args:
        encoder: any module; it is left as it was.
        input_shape: of one input, without the batch: (C, H, W).

    Example:
        >>> forward_flops(nn.Conv2d(3, 8, 1, bias=False), (3, 4, 4))      # 3 · 8 multiply-adds at 16 places
        768
    """
    total = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal total
        products_per_output = math.prod(module.weight.shape[1:])
        total += 2 * products_per_output * output.numel()

    shapes_only = copy.deepcopy(encoder).to("meta").eval()
    for module in shapes_only.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    with torch.no_grad():
        shapes_only(torch.empty(1, *input_shape, device="meta"))
    return total
