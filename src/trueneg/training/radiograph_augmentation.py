"""Augmentation of radiographs paired with sentences: random crop, brightness and contrast, which cannot contradict a sentence."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torchvision.transforms.functional import center_crop

from trueneg.training.augment import Augmentation, mean_grey


class RadiographAugmentation(Augmentation):
    """Crop of fixed size at a random position, then brightness, then contrast, drawn separately for every image.

    Sample-Specific Debiasing (2023) crops 480 of 512 pixels and jitters brightness and contrast by an unspecified amount. Images
    are not flipped because reports distinguish left from right. Brightness and contrast are defined as in torchvision, but their
    order is fixed (it is random in ``ColorJitter``): multiply, then blend with the mean grey value of the image; each result is
    clamped to [0, 1].

    Args:
        mean, std: mean and standard deviation of each channel, for pixel values in [0, 1].
        crop: side of the crop as a fraction of the image side, in (0, 1].
        brightness: factors are uniform in 1 ± ``brightness``; less than 1.
        contrast: factors are uniform in 1 ± ``contrast``; less than 1.
        evaluated: part of an image that evaluation uses: its central ``"crop"``, or the ``"whole"`` image.

    The parameters of an image are: top and left of the crop, brightness, contrast.

    Example:
        >>> augmentation = RadiographAugmentation([0.5], [0.25], crop=0.75)
        >>> parameters = augmentation.draw(2, (32, 32), torch.Generator().manual_seed(0))
        >>> augmentation(torch.zeros(2, 1, 32, 32, dtype=torch.uint8), parameters).shape
        torch.Size([2, 1, 24, 24])
    """

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        crop: float = 0.9375,
        brightness: float = 0.2,
        contrast: float = 0.2,
        evaluated: Literal["crop", "whole"] = "crop",
    ) -> None:
        super().__init__(mean, std)
        if evaluated not in ("crop", "whole"):
            raise ValueError(f"evaluated is {evaluated!r}; expected 'crop' or 'whole'.")
        self.crop, self.evaluated = crop, evaluated
        self.jitter = (brightness, contrast)

    def cropped(self, size: Sequence[int]) -> tuple[int, int]:
        """Return the height and width of the crop for images of this size."""
        height, width = (max(1, round(self.crop * side)) for side in size)
        return height, width

    def evaluated_size(self, size: Sequence[int]) -> tuple[int, int]:
        """Return the height and width of the central part that evaluation uses, for images of this size."""
        height, width = size if self.evaluated == "whole" else self.cropped(size)
        return height, width

    def draw(self, count: int, size: Sequence[int], generator: torch.Generator) -> Tensor:
        uniform = torch.rand(count, 4, generator=generator, dtype=torch.float64)
        free = torch.tensor([whole - part for whole, part in zip(size, self.cropped(size), strict=True)])
        places = (uniform[:, :2] * (free + 1)).floor()
        factors = 1 + torch.tensor(self.jitter, dtype=torch.float64) * (2 * uniform[:, 2:] - 1)
        return torch.cat([places, factors], dim=1).float()

    @torch.no_grad()
    def forward(self, images: Tensor, parameters: Tensor) -> Tensor:
        height, width = self.cropped(images.shape[-2:])
        top, left = parameters[:, :2].long().split(1, dim=1)
        rows = top + torch.arange(height, device=images.device)
        columns = left + torch.arange(width, device=images.device)
        image = torch.arange(len(images), device=images.device)[:, None, None]
        # The result has channels-last memory layout, as the encoder expects.
        pixels = images[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).float() / 255
        brightness, contrast = parameters[:, 2:].view(-1, 2, 1, 1).split(1, dim=1)
        pixels = (pixels * brightness).clamp_(0, 1)
        middle = mean_grey(pixels)
        pixels = ((pixels - middle) * contrast + middle).clamp_(0, 1)
        return pixels.sub_(self.mean).div_(self.std)

    def normalise(self, images: Tensor) -> Tensor:
        """Return the normalised central part, which is used in evaluation."""
        return super().normalise(center_crop(images, list(self.evaluated_size(images.shape[-2:]))))
