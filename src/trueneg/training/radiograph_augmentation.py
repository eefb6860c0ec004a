"""Augmentation of images paired with sentences; by default only crops, brightness and contrast,
which contradict no sentence.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor
from torchvision.transforms.functional import center_crop

from trueneg.training.augment import (
    CROP_RATIO,
    Augmentation,
    affine_map,
    draw_boxes,
    gaussian_blur,
    mean_grey,
    resized_crop,
)

SMALLEST_SIGMA = 0.1  # of the blur, in pixels (ConVIRT)


class RadiographAugmentation(Augmentation):
    """Crop, flip, affine map, brightness, contrast and blur, in this order, drawn separately for
    every image.

    Sample-Specific Debiasing (2023) crops 480 of 512 pixels and jitters brightness and contrast by
    an unspecified amount; by default, images are not flipped because reports distinguish left from
    right. ConVIRT (Zhang et al., 2020), which ReCo follows, uses all steps and flips images:
    ``crop_area=0.6``, ``flip=0.5``, ``rotation=20``, ``translation=0.1``, ``scaling=0.05``,
    ``brightness=0.4``, ``contrast=0.4``, ``blur=3``.

    Brightness and contrast are defined as in torchvision, but their order is fixed (it is random in
    ``ColorJitter``): multiply, then blend with the mean grey value of the image; each result is
    clamped to [0, 1]. The other steps, too, equal torchvision's; the affine map is bilinear and
    black outside the image, and its translations are not rounded to whole pixels.

    Args:
        mean, std: mean and standard deviation of each channel, for pixel values in [0, 1].
        crop: side of the crop as a fraction of the image side, in (0, 1].
        brightness: factors are uniform in 1 ± ``brightness``; less than 1.
        contrast: factors are uniform in 1 ± ``contrast``; less than 1.
        evaluated: part of an image that evaluation uses: its central ``"crop"``, or the ``"whole"``
            image.
        crop_area: smallest area of a crop as a share of the image; crops, with an aspect ratio of
            3/4 to 4/3, are resized to the size that ``crop`` gives. None: crops have that size.
        flip: probability of a horizontal flip.
        rotation: angles are uniform in ± ``rotation`` degrees.
        translation: translations are uniform in ± this share of the side, in both directions.
        scaling: factors are uniform in 1 ± ``scaling``; less than 1.
        blur: largest standard deviation of the Gaussian blur in pixels, uniform from 0.1; 0: no
            blur.

    The parameters of an image are: top and left of the crop, brightness, contrast; if any setting
    from ``crop_area`` on is used, also height and width of the crop, flip, rotation, shear (0),
    logarithm of the scale, translation right and down, and standard deviation of the blur.

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
        crop_area: float | None = None,
        flip: float = 0.0,
        rotation: float = 0.0,
        translation: float = 0.0,
        scaling: float = 0.0,
        blur: float = 0.0,
    ) -> None:
        super().__init__(mean, std)
        self.crop = crop
        self.evaluated = evaluated
        self.jitter = (brightness, contrast)
        self.crop_area = crop_area
        self.flip = flip
        self.blur = blur
        self.affine = (math.radians(rotation), scaling, translation, translation)
        # crops, brightness and contrast only
        self.is_simple = crop_area is None and not any((flip, *self.affine, blur))

    def cropped(self, size: Sequence[int]) -> tuple[int, int]:
        """Return the height and width of the crop for images of this size."""
        height, width = (max(1, round(self.crop * side)) for side in size)
        return height, width

    def evaluated_size(self, size: Sequence[int]) -> tuple[int, int]:
        """Return the height and width of the central part that evaluation uses, for images of this
        size.
        """
        height, width = size if self.evaluated == "whole" else self.cropped(size)
        return height, width

    def draw(self, count: int, size: Sequence[int], generator: torch.Generator) -> Tensor:
        uniform = torch.rand(count, 4, generator=generator, dtype=torch.float64)
        free = torch.tensor(
            [whole - part for whole, part in zip(size, self.cropped(size), strict=True)]
        )
        places = (uniform[:, :2] * (free + 1)).floor()
        factors = 1 + torch.tensor(self.jitter, dtype=torch.float64) * (2 * uniform[:, 2:] - 1)
        if self.is_simple:
            return torch.cat([places, factors], dim=1).float()
        boxes = torch.cat([places, torch.tensor(self.cropped(size)).expand(count, 2)], dim=1)
        if self.crop_area is not None:
            boxes = draw_boxes(count, size, (self.crop_area, 1.0), CROP_RATIO, generator)
        uniform = torch.rand(count, 6, generator=generator, dtype=torch.float64)
        flip = uniform[:, :1] < self.flip
        sigma = SMALLEST_SIGMA + (self.blur - SMALLEST_SIGMA) * uniform[:, 1:2]
        rotation, scale, *shifts = (torch.tensor(self.affine) * (2 * uniform[:, 2:] - 1)).split(
            1, dim=1
        )
        affine = [rotation, torch.zeros_like(rotation), scale.log1p(), *shifts]
        return torch.cat([boxes[:, :2], factors, boxes[:, 2:], flip, *affine, sigma], dim=1).float()

    @torch.no_grad()
    def forward(self, images: Tensor, parameters: Tensor) -> Tensor:
        places, factors, sides, flip, affine, sigma = parameters.tensor_split(
            [2, 4, 6, 7, 12], dim=1
        )
        if self.is_simple:
            pixels = self._crops(images, places)
        else:
            boxes = torch.cat([places, sides], dim=1)
            pixels = affine_map(
                resized_crop(images.float() / 255, boxes, flip, self.cropped(images.shape[-2:])),
                affine,
            )
        brightness, contrast = factors.view(-1, 2, 1, 1).split(1, dim=1)
        pixels = (pixels * brightness).clamp_(0, 1)
        middle = mean_grey(pixels)
        pixels = ((pixels - middle) * contrast + middle).clamp_(0, 1)
        if self.blur:
            pixels = gaussian_blur(pixels, sigma, radius=math.ceil(3 * self.blur))
        return pixels.sub_(self.mean).div_(self.std)

    def _crops(self, images: Tensor, places: Tensor) -> Tensor:
        """Return crops whose top left corners are at `places` (B, 2)."""
        height, width = self.cropped(images.shape[-2:])
        top, left = places.long().split(1, dim=1)
        rows = top + torch.arange(height, device=images.device)
        columns = left + torch.arange(width, device=images.device)
        image = torch.arange(len(images), device=images.device)[:, None, None]
        # The result has channels-last memory layout, as the encoder expects.
        return (
            images[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).float()
            / 255
        )

    def normalise(self, images: Tensor) -> Tensor:
        """Return the normalised central part, which is used in evaluation."""
        return super().normalise(center_crop(images, list(self.evaluated_size(images.shape[-2:]))))


def build_radiograph_augmentation(
    settings: Mapping[str, Any], mean: Sequence[float], std: Sequence[float]
) -> RadiographAugmentation:
    """Build the augmentation described by the ``augmentation`` section of a study."""
    return RadiographAugmentation(mean, std, **settings)
