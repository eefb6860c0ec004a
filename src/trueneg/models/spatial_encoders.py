"""Residual networks that map images to a grid of region features."""

import contextlib
import io
from collections import OrderedDict
from pathlib import Path

from torch import Tensor, nn
from torchvision.models import get_model_weights, resnet
from torchvision.models.resnet import BasicBlock

from trueneg.errors import UserError
from trueneg.io.downloads import explain_download
from trueneg.io.reading import reading
from trueneg.models.image_encoders import initialise, residual_block
from trueneg.models.weights import read_tensors


class SpatialResNet(nn.Sequential):
    """ImageNet variant of ResNet-18 or ResNet-50 up to the last feature map, without pooling or
    classifier.

    The network and its parameter names are torchvision's. Grey images are repeated in the three
    channels that ImageNet weights expect. The grid has 1/32 of the image's resolution: 15 × 15
    regions at 480 pixels.

    Args:
        name: ``"resnet18"`` (C = 512) or ``"resnet50"`` (C = 2048).
        weights: None: random initialisation with torch's RNG. A torchvision weights name, such as
            ``"IMAGENET1K_V1"``: downloaded once. Otherwise the path of a state dict in
            ``.safetensors`` or ``.pt``/``.pth`` format, from which only tensors are read;
            classifier weights are ignored.

    Attributes:
        dimensions: C, number of feature channels.

    Raises:
        UserError: if the weights name or file does not exist, or the weights cannot be downloaded,
            cannot be read, or do not fit.

    Example:
        >>> import torch
        >>> encoder = SpatialResNet("resnet18").eval()
        >>> encoder(torch.zeros(1, 1, 64, 96)).shape
        torch.Size([1, 512, 2, 3])
    """

    def __init__(self, name: str, weights: str | Path | None = None) -> None:
        network = getattr(resnet, name)()
        # without global pooling and the classifier
        super().__init__(OrderedDict([*network.named_children()][:-2]))
        self.dimensions = network.fc.in_features
        if weights is not None:
            state = _state_dict(name, weights)
            with reading(weights, f"a state dict of {name}", "Use weights of this network."):
                self.load_state_dict(
                    {key: value for key, value in state.items() if not key.startswith("fc.")}
                )

    def forward(self, images: Tensor) -> Tensor:
        """Return feature maps (B, C, ⌈H/32⌉, ⌈W/32⌉) of normalised images (B, 1 or 3, H, W)."""
        return super().forward(images.expand(-1, 3, -1, -1) if images.shape[1] == 1 else images)


class SmallSpatialResNet(nn.Sequential):
    """Stride-2 stem and three basic blocks, for training on a CPU with grey images of about 64 to
    112 pixels.

    It maps normalised images (B, in_channels, H, W) to feature maps (B, C, ⌈H/8⌉, ⌈W/8⌉): 8 × 8
    regions at 64 pixels, 14 × 14 at 112. Weights are initialised as in He et al. (2015).

    Args:
        width: channels of the stem and the first block; the later blocks are two and four times as
            wide.
        in_channels: channels of the images.

    Attributes:
        dimensions: C = 4·``width``, number of feature channels.

    Example:
        >>> import torch
        >>> encoder = SmallSpatialResNet(width=4)
        >>> encoder(torch.zeros(2, 1, 64, 64)).shape
        torch.Size([2, 16, 8, 8])
    """

    def __init__(self, width: int = 16, in_channels: int = 1) -> None:
        stem = nn.Conv2d(in_channels, width, 3, stride=2, padding=1, bias=False)
        shapes = [(width, width, 2), (width, 2 * width, 2), (2 * width, 4 * width, 1)]
        blocks = nn.Sequential(*(residual_block(BasicBlock, *shape) for shape in shapes))
        super().__init__(
            OrderedDict(
                conv1=stem, bn1=nn.BatchNorm2d(width), relu=nn.ReLU(inplace=True), blocks=blocks
            )
        )
        self.dimensions = 4 * width
        initialise(self)


def build_spatial_encoder(name: str, *, in_channels: int = 1, **options) -> nn.Module:
    """Build the spatial encoder with the given config name.

    Args:
        name: ``small``, ``resnet18`` or ``resnet50``.
        in_channels: channels of the images; ResNets take 1 or 3.
        options: encoder-specific options: ``width`` for ``small``, ``weights`` for the others.

    Returns:
        A module that maps float images (B, 1, H, W) to features (B, C, h, w), where C is its
            ``dimensions``.

    Raises:
        UserError: see :class:`SpatialResNet`.

    Example:
        >>> build_spatial_encoder("small", width=8).dimensions
        32
    """
    return (
        SmallSpatialResNet(in_channels=in_channels, **options)
        if name == "small"
        else SpatialResNet(name, **options)
    )


def _state_dict(name: str, weights: str | Path) -> dict[str, Tensor]:
    """Load a state dict from torchvision, given the name of the weights, or from a file; only
    tensors are unpickled.
    """
    published = get_model_weights(name).__members__
    path = Path(weights)
    if (torchvision_weights := published.get(str(weights))) is not None:
        # Torch says that it downloads even if there is no network.
        with (
            explain_download(f"{name} {weights}", torchvision_weights.url),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            return torchvision_weights.get_state_dict(
                progress=False, check_hash=True, weights_only=True
            )
    if not path.is_file():
        raise UserError(
            f"{path} does not exist; expected a file or torchvision weights:"
            f" {', '.join(published)}."
        )
    return read_tensors(path)
