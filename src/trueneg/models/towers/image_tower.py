"""What image towers share: the size and normalisation of their input, and the region vectors of
timm's networks.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.models.towers.tower import Embedded, Tower


class ImageTower(Tower):
    """Base class of image towers.

    Args:
        network: the library's network.
        size: height and width of its input.
        mean, std: mean and standard deviation of each of the three channels, for pixel values in
            [0, 1].
        trunk: the part of the network that is a timm network, for :meth:`embed_with_timm`; None if
            there is none.

    Attributes:
        map_axes: 4 if the trunk has a feature map, 3 if it has patch tokens, 0 without either.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        network: Any,
        size: Sequence[int],
        mean: Sequence[float],
        std: Sequence[float],
        trunk: Any = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.size = tuple(size)
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)
        self.eval()
        images = torch.zeros(1, 3, *self.size)
        self.map_axes = 0
        with torch.no_grad():
            if trunk is not None and isinstance(features := trunk.forward_features(images), Tensor):
                self.map_axes = (
                    features.ndim
                    if features.ndim == 4 or hasattr(trunk, "forward_intermediates")
                    else 0
                )
            sample = self(images)
        self.dimensions = sample.pooled.shape[1]
        self.grid = None if sample.regions is None else tuple(sample.regions.shape[2:])

    def forward(self, batch: Tensor) -> Embedded:
        """Embed pixel values in [0, 1], (B, 1 or 3, H, W); other sizes are resized (bicubic),
        without keeping proportions.
        """
        images = batch.expand(-1, 3, -1, -1)
        if images.shape[2:] != self.size:
            images = functional.interpolate(images, self.size, mode="bicubic", antialias=True)
        return self.embed((images - self.mean) / self.std)

    def embed(self, images: Tensor) -> Embedded:
        """Embed normalised images (B, 3, H, W) of the network's size; as a timm network does,
        unless a class overrides it.
        """
        return self.embed_with_timm(self.network, images)

    def embed_with_timm(self, trunk: Any, images: Tensor) -> Embedded:
        """Embed images with a timm network's own pooling, and its regions.

        A region's vector is the output of the network's pooling and later layers for that cell of
        the feature map, or patch token, alone: with average pooling, the cell itself; with
        attention pooling, its value (MaskCLIP, Zhou et al., 2022). So regions are always in the
        space of the pooled vector.
        """
        if not self.map_axes:
            return Embedded(trunk(images))
        # timm puts tokens in their places; some networks (Hiera) do not keep the order of pixels
        if self.map_axes == 3:
            last = {"indices": 1, "norm": hasattr(trunk, "norm"), "output_fmt": "NCHW"}
            features, (cells,) = trunk.forward_intermediates(images, **last)
            cells = cells.movedim(1, 3)
            # Pooling drops or selects prefix tokens (cls, registers), so the cell takes their
            # places too.
            prefix = getattr(trunk, "num_prefix_tokens", getattr(trunk, "num_tokens", 0))  # PiT
            alone = cells.flatten(0, 2)[:, None].expand(-1, 1 + prefix, -1)
        else:
            features = trunk.forward_features(images)
            is_last = getattr(trunk, "output_fmt", "NCHW") == "NHWC"
            cells = features if is_last else features.movedim(1, 3)
            alone = (
                cells.flatten(0, 2)[:, None, None]
                if is_last
                else cells.flatten(0, 2)[..., None, None]
            )
        regions = trunk.forward_head(alone).unflatten(0, cells.shape[:3]).movedim(3, 1)
        return Embedded(trunk.forward_head(features), regions)
