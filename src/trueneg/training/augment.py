"""Augmentation of whole batches, with separate parameters for every image.

Augmentation has two steps. ``draw`` generates the parameters of a whole epoch on the CPU from a
generator, so they do not depend on the device of the images; they are moved to the device once.
Calling the augmentation applies a slice of them to a batch. All operations have fixed shapes and
none synchronizes the device, so the call can be compiled or captured in a CUDA graph.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.errors import UserError

# number of boxes that torchvision's RandomResizedCrop tries before falling back to a central crop
CROP_TRIES = 10
CROP_SCALE = (0.08, 1.0)  # smallest and largest area of a crop, as a fraction of the image area
CROP_RATIO = (3 / 4, 4 / 3)  # smallest and largest width/height; drawn log-uniformly
BLUR = (0.1, 2.0)  # smallest and largest standard deviation of the blur in SimCLR, in pixels
FACTOR_RANGE, HUE_RANGE = 0.4, 0.1  # of the colour jitter
SHARP = 0.01  # standard deviation at which all weights but the middle one are 0 in float32
# weights of red, green and blue for greyscale conversion, as in torchvision
LUMA = (0.2989, 0.587, 0.114)


class Augmentation(nn.Module):
    """Base class of all augmentations, which implements normalisation; used directly, it applies no
    augmentation.

    Args:
        mean: mean of each channel, for pixel values in [0, 1].
        std: standard deviation of each channel, for pixel values in [0, 1].

    Example:
        >>> augmentation = Augmentation(mean=[0.5], std=[0.5])
        >>> parameters = augmentation.draw(2, (1, 1), torch.Generator())
        >>> images = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1)
        >>> augmentation(images, parameters).flatten().tolist()
        [-1.0, 1.0]
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32).view(-1, 1, 1))
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32).view(-1, 1, 1))

    def draw(self, count: int, size: Sequence[int], generator: torch.Generator) -> Tensor:
        """Draw parameters for ``count`` images.

        Args:
            count: number of images.
            size: height and width of the images, in pixels.
            generator: CPU generator, the only source of randomness.

        Returns:
            float32, one row per image, shape (count, P). Rows may be sliced and moved to any
                device.
        """
        return torch.empty(count, 0)

    def draw_views(
        self, count: int, size: Sequence[int], generators: Sequence[torch.Generator]
    ) -> list[Tensor]:
        """Draw parameters for several views of each of ``count`` images, one generator per view;
        see :meth:`draw`.
        """
        return [self.draw(count, size, generator) for generator in generators]

    def forward(self, images: Tensor, parameters: Tensor) -> Tensor:
        """Augment and normalise images.

        Args:
            images: uint8, shape (B, C, H, W).
            parameters: rows returned by ``draw`` for this image size, shape (B, P), on the images'
                device.

        Returns:
            float32, shape (B, C, H, W), or the size of the views.
        """
        return self.normalise(images)

    def normalise(self, images: Tensor) -> Tensor:
        """Normalise images without augmenting them: uint8 (B, C, H, W) → float32 (B, C, H, W)."""
        return _unit_range(images).sub_(self.mean).div_(self.std)


class ColorAugmentation(Augmentation):
    """SimCLR augmentation as in the DCL code: crop and resize, flip, colour jitter, greyscale,
    blur.

    The steps, in order: a crop of random area and aspect ratio, resized to the size of the views; a
    horizontal flip with probability 0.5; with probability 0.8, brightness, contrast and saturation
    (factors in 1 ± 0.4) and hue (± 0.1 turns) jitter in a random order; greyscale with probability
    0.2; optionally a 3×3 Gaussian blur. Given the same parameters, the result for each image equals
    that of torchvision's v2 functions on float images in [0, 1]. (The DCL code works on 8-bit
    images, which are rounded after each operation.)

    The parameters of an image are: top, left, height and width of the crop; flip; brightness,
    contrast, saturation and hue; the position, 0 to 3, of each of these four in the jitter order;
    greyscale; and, with blur, its standard deviation. Disabled jitter is stored as factor 1 and hue
    shift 0, disabled blur as 0.

    Args:
        mean, std: see ``Augmentation``; three channels.
        size: side of the square views in pixels; None: the size of the images.
        blur: probability of the blur, whose standard deviation is uniform in 0.1 … 2 pixels; the
            DCL code's is 0.5.

    Example:
        >>> augmentation = ColorAugmentation(mean=[0.5] * 3, std=[0.25] * 3)
        >>> parameters = augmentation.draw(4, (32, 32), torch.Generator().manual_seed(0))
        >>> augmentation(torch.zeros(4, 3, 32, 32, dtype=torch.uint8), parameters).shape
        torch.Size([4, 3, 32, 32])
    """

    def __init__(
        self,
        mean: Sequence[float],
        std: Sequence[float],
        size: int | None = None,
        blur: float = 0.0,
    ) -> None:
        super().__init__(mean, std)
        self.size = None if size is None else (size, size)
        self.blur = blur

    def draw(self, count: int, size: Sequence[int], generator: torch.Generator) -> Tensor:
        boxes = draw_boxes(count, size, CROP_SCALE, CROP_RATIO, generator)
        flip = torch.rand(count, 1, generator=generator) < 0.5
        jitter = torch.rand(count, 1, generator=generator) < 0.8
        greyscale = torch.rand(count, 1, generator=generator) < 0.2
        lowest = 1 - FACTOR_RANGE
        factors = lowest + (1 + FACTOR_RANGE - lowest) * torch.rand(count, 3, generator=generator)
        hue = HUE_RANGE * (2 * torch.rand(count, 1, generator=generator) - 1)
        turns = torch.rand(count, 4, generator=generator).argsort(dim=1)  # a uniform permutation
        factors = torch.where(jitter, factors, 1.0)
        hue = torch.where(jitter, hue, 0.0)
        drawn = [boxes, flip, factors, hue, turns, greyscale]
        if self.blur:  # drawn last, so that the other parameters do not depend on it
            chance, level = torch.rand(2, count, 1, generator=generator)
            drawn.append(
                torch.where(chance < self.blur, BLUR[0] + (BLUR[1] - BLUR[0]) * level, 0.0)
            )
        return torch.cat(drawn, dim=1).float()

    @torch.no_grad()
    def forward(self, images: Tensor, parameters: Tensor) -> Tensor:
        boxes, flip, factors, hue, turns, greyscale, sigma = parameters.tensor_split(
            [4, 5, 8, 9, 13, 14], dim=1
        )
        pixels = resized_crop(_unit_range(images), boxes, flip, self.size)
        pixels = jitter_colors(pixels, factors, hue, turns)
        grey = _greyscale(pixels).mul_(greyscale.view(-1, 1, 1)).unsqueeze(1)
        pixels = pixels.mul_((1 - greyscale).view(-1, 1, 1, 1)).add_(grey)
        pixels = gaussian_blur(pixels, sigma, radius=1) if self.blur else pixels
        return pixels.sub_(self.mean).div_(self.std)


class DigitAugmentation(Augmentation):
    """Small affine maps, brightness, contrast and noise, for digits: a flip would change their
    class.

    The steps, in order: an affine map about the centre (rotation ± 15°, shear ± 10°, scale e^(±
    0.15), translation ± 0.1 of the side; bilinear, black outside), brightness and contrast as
    defined by torchvision (in 1 ± 0.3), and Gaussian noise (standard deviation uniform in 0 … 0.1);
    the result is clamped to [0, 1] and normalised.

    The noise is drawn together with the other parameters, so it is also identical on every device.
    It takes 4·H·W bytes per image and view, which is little for digits (0.5 MB per epoch at 8×8).
    All channels of an image share it.

    Args:
        mean, std: see ``Augmentation``; one channel or three.

    The parameters of an image are: rotation, shear, logarithm of the scale, translation right and
    down, brightness, contrast; then H·W noise values.

    Example:
        >>> augmentation = DigitAugmentation(mean=[0.3], std=[0.4])
        >>> parameters = augmentation.draw(4, (8, 8), torch.Generator().manual_seed(0))
        >>> augmentation(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), parameters).shape
        torch.Size([4, 1, 8, 8])
    """

    # Rotation, shear (radians), log scale, translation right and down (fraction of side),
    # brightness and contrast (minus 1).
    RANGES = math.radians(15), math.radians(10), 0.15, 0.1, 0.1, 0.3, 0.3
    NOISE = 0.1

    def draw(self, count: int, size: Sequence[int], generator: torch.Generator) -> Tensor:
        offsets = torch.tensor(self.RANGES) * (
            2 * torch.rand(count, len(self.RANGES), generator=generator) - 1
        )
        affine = offsets[:, :5]
        factors = 1 + offsets[:, 5:]
        level = self.NOISE * torch.rand(count, 1, generator=generator)
        noise = level * torch.randn(count, math.prod(size), generator=generator)
        return torch.cat([affine, factors, noise], dim=1)

    @torch.no_grad()
    def forward(self, images: Tensor, parameters: Tensor) -> Tensor:
        affine, brightness, contrast, noise = parameters.tensor_split([5, 6, 7], dim=1)
        pixels = affine_map(_unit_range(images), affine)
        brightness = brightness.view(-1, 1, 1, 1)
        contrast = contrast.view(-1, 1, 1, 1)
        pixels = pixels.mul_(brightness).clamp_(0, 1)
        pixels = torch.addcmul((1 - contrast) * mean_grey(pixels), pixels, contrast).clamp_(0, 1)
        pixels = pixels.add_(noise.view(-1, 1, *images.shape[-2:])).clamp_(0, 1)
        return pixels.sub_(self.mean).div_(self.std)


def build_augmentation(
    settings: Mapping[str, Any], mean: Sequence[float], std: Sequence[float]
) -> Augmentation:
    """Build the augmentation described by the ``augmentation`` section of a study.

    Args:
        settings: ``name`` and ``size`` and ``blur`` for ``color``.
        mean, std: mean and standard deviation of each image channel, for pixel values in [0, 1].

    Raises:
        UserError: if the augmentation does not support the number of channels.

    Example:
        >>> build_augmentation({"name": "color", "blur": 0.5}, mean=[0.5] * 3, std=[0.25] * 3).blur
        0.5
    """
    name = settings["name"]
    if name == "none":
        return Augmentation(mean, std)
    if name == "color" and len(mean) != 3:
        raise UserError(
            f"augmentation.name is color, which needs 3 channels, but the images have {len(mean)};"
            " use another."
        )
    if name == "digits":
        return DigitAugmentation(mean, std)
    return ColorAugmentation(mean, std, settings.get("size"), settings.get("blur", 0.0))


def _unit_range(images: Tensor) -> Tensor:
    """Convert 8-bit values to float32 in [0, 1]; in two steps, because CPUs do not vectorise the
    division of bytes.
    """
    return images.float().mul_(1 / 255)


def draw_boxes(
    count: int,
    size: Sequence[int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """Draw boxes of random area and aspect ratio with the distribution of torchvision's
    RandomResizedCrop.

    Ten boxes are drawn with uniform area and uniform log aspect ratio, and their sides are rounded
    to whole pixels. The first that fits inside the image is used, at a random position; if none
    fits, the largest centred box with a permitted aspect ratio is used.

    Args:
        count: number of boxes.
        size: height and width of the images.
        scale: smallest and largest area, as a fraction of the image area.
        ratio: smallest and largest width/height.
        generator: CPU generator.

    Returns:
        top, left, height, width in pixels: whole numbers as float64, shape (count, 4).
    """
    rows, columns = size
    # In float32, a number just below 1 multiplied by the free pixels could round up to a position
    # one pixel too far.
    uniform = torch.rand(4, count, CROP_TRIES, generator=generator, dtype=torch.float64)
    area = rows * columns * (scale[0] + (scale[1] - scale[0]) * uniform[0])
    log_ratio = math.log(ratio[0]) + (math.log(ratio[1]) - math.log(ratio[0])) * uniform[1]
    width = (area * log_ratio.exp()).sqrt().round()
    height = (area / log_ratio.exp()).sqrt().round()
    fits = (width > 0) & (width <= columns) & (height > 0) & (height <= rows)
    top = (uniform[2] * (rows - height + 1)).floor()
    left = (uniform[3] * (columns - width + 1)).floor()
    tries = torch.stack([top, left, height, width], dim=2)
    first = torch.where(fits, torch.arange(CROP_TRIES), CROP_TRIES).amin(dim=1)
    chosen = tries[torch.arange(count), first.clamp(max=CROP_TRIES - 1)]
    widest = min(columns, round(rows * ratio[1]))
    highest = min(rows, round(columns / ratio[0]))
    centred = [(rows - highest) // 2, (columns - widest) // 2, highest, widest]
    return torch.where(
        (first < CROP_TRIES).unsqueeze(1), chosen, torch.tensor(centred, dtype=torch.float64)
    )


def resized_crop(
    pixels: Tensor, boxes: Tensor, flip: Tensor, size: Sequence[int] | None = None
) -> Tensor:
    """Crop one box from each image, resize it and optionally mirror it.

    Bilinear interpolation uses only pixels inside the box. If the box is larger than the result,
    the interpolation triangles are widened accordingly (antialiasing), as in torchvision and
    Pillow. The operation is separable: rows · image · columnsᵀ. On a GPU with TF32 products
    enabled, the result is only accurate to 1e-3.

    Args:
        pixels: float32, shape (B, C, H, W).
        boxes: top, left, height, width of each box in whole pixels, shape (B, 4).
        flip: positive for images to mirror left to right, shape (B, 1).
        size: height and width of the result; None: the size of the input images.

    Returns:
        float32, shape (B, C, *size).
    """
    batch, channels, height, width = pixels.shape
    rows, columns = size or (height, width)
    top, left, box_height, box_width = boxes.split(1, dim=1)
    mix_rows = _interpolation(top, box_height, height, rows, torch.zeros_like(flip))
    mix_columns = _interpolation(left, box_width, width, columns, flip)
    with torch.autocast(pixels.device.type, enabled=False):  # keep these products in full precision
        wide = torch.bmm(
            pixels.reshape(batch, channels * height, width), mix_columns.transpose(1, 2)
        )
        return torch.matmul(mix_rows.unsqueeze(1), wide.view(batch, channels, height, columns))


def _interpolation(
    start: Tensor, length: Tensor, source: int, target: int, mirrored: Tensor
) -> Tensor:
    """Return weights (B, target, source) that resize ``length`` pixels from ``start``, both (B, 1),
    to ``target`` pixels.
    """
    pixel = torch.arange(source, device=start.device) + 0.5
    place = torch.arange(target, device=start.device) + 0.5
    place = torch.where(mirrored > 0, target - place, place)
    step = length / target
    centre = (start + step * place).unsqueeze(2)
    weights = (1 - (pixel - centre).abs_() / step.clamp(min=1).unsqueeze(2)).clamp_(min=0)
    weights *= ((pixel > start) & (pixel < start + length)).unsqueeze(1)
    return weights.div_(weights.sum(dim=2, keepdim=True))


def jitter_colors(pixels: Tensor, factors: Tensor, hue: Tensor, turns: Tensor) -> Tensor:
    """Change brightness, contrast, saturation and hue of each image, in an order that can differ
    between images.

    The first three are blends of the image with black, with its average grey, and with its own
    greyscale version; each result is clamped to [0, 1]. Because hue may come at any position, there
    are three blends before it and three after it. Each image uses three of the six; the others
    leave it unchanged. All images thus go through the same steps, and hue, the most expensive one,
    is computed only once.

    Args:
        pixels: float32 in [0, 1], shape (B, 3, H, W).
        factors: factors for brightness, contrast and saturation, shape (B, 3); 1 leaves the image
            unchanged.
        hue: shift in turns, −0.5 to 0.5, shape (B, 1).
        turns: position (0 to 3) of brightness, contrast, saturation and hue in the order, shape (B,
            4).

    Returns:
        float32 in [0, 1], shape (B, 3, H, W).
    """
    others = turns[:, :3]
    hue_turn = turns[:, 3:]
    # 0, 1, 2 before hue; 3, 4, 5 after it
    slot = torch.where(others > hue_turn, others + 2, others)
    chosen = slot.unsqueeze(2) == torch.arange(6, device=turns.device)
    # (B, 3, 6): difference between 1 and each factor
    missing = torch.where(chosen, (1 - factors).unsqueeze(2), 0.0)
    kept = 1 - missing.sum(dim=1)
    # modified in place from here on: on a CPU, allocation costs as much as the arithmetic
    pixels = pixels.clone()
    for number in range(6):
        if number == 3:
            pixels = _shift_hue(pixels, hue)
        grey = _greyscale(pixels)
        average = grey.mean(dim=(1, 2)) * missing[:, 1, number]
        grey.mul_(missing[:, 2, number].view(-1, 1, 1)).add_(average.view(-1, 1, 1))
        pixels.mul_(kept[:, number].view(-1, 1, 1, 1)).add_(grey.unsqueeze(1)).clamp_(0, 1)
    return pixels


def gaussian_blur(pixels: Tensor, sigma: Tensor, radius: int) -> Tensor:
    """Blur each image with its own Gaussian kernel, as torchvision's function of the same name does
    with one kernel for all.

    Args:
        pixels: float32, shape (B, C, H, W).
        sigma: standard deviations in pixels, shape (B, 1); 0 leaves the image unchanged.
        radius: the kernel has 2 · radius + 1 weights per side; at most the shorter side minus 1 is
            used. Images are reflected at their edges.

    Returns:
        float32, shape (B, C, H, W).
    """
    batch, channels, height, width = pixels.shape
    radius = min(radius, height - 1, width - 1)
    steps = torch.arange(-radius, radius + 1, device=pixels.device) / sigma.clamp(min=SHARP)
    kernels = torch.softmax(-(steps**2) / 2, dim=1).repeat_interleave(channels, dim=0)[
        :, None, None
    ]
    padded = functional.pad(pixels, [radius] * 4, mode="reflect").reshape(
        1, batch * channels, height + 2 * radius, -1
    )
    with torch.autocast(pixels.device.type, enabled=False):
        rows = functional.conv2d(padded, kernels, groups=batch * channels)
        return functional.conv2d(rows, kernels.mT, groups=batch * channels).view(pixels.shape)


def mean_grey(pixels: Tensor) -> Tensor:
    """Return the mean grey value (B, 1, 1, 1) of each image (B, 1 or 3, H, W)."""
    grey = (
        pixels
        if pixels.shape[1] == 1
        else (pixels * pixels.new_tensor(LUMA).view(-1, 1, 1)).sum(1, keepdim=True)
    )
    return grey.mean((1, 2, 3), keepdim=True)


def _greyscale(pixels: Tensor) -> Tensor:
    """Convert colours (B, 3, H, W) to grey values (B, H, W)."""
    red, green, blue = pixels.unbind(1)
    return (red * LUMA[0]).add_(green, alpha=LUMA[1]).add_(blue, alpha=LUMA[2])


def _shift_hue(pixels: Tensor, shift: Tensor) -> Tensor:
    """Shift the HSV hue of colours (B, 3, H, W) by a number of turns (B, 1), modulo 1.

    With chroma c = max − min and hue h in sixths of a turn, from −3 to 3: |h| = 1 + (g + b − r −
    min)/c, with h negative where b > g. Conversely, red is min + c·w(0), green min + c·w(2) and
    blue min + c·w(4), where w(k) = ||h − k| − 3| − 1 clamped to [0, 1]. This is the usual
    definition without its case distinctions, which are slow on whole planes.
    """
    red, green, blue = pixels.unbind(1)
    lowest = torch.minimum(red, green).minimum(blue)
    chroma = torch.maximum(red, green).maximum(blue).sub_(lowest)
    # grey: 0 / 1e-12
    unsigned = (green - red).add_(blue).sub_(lowest).div_(chroma.clamp(min=1e-12)).add_(1)
    sixths = unsigned.copysign_(green - blue).add_(6 * shift.unsqueeze(2))
    sixths -= (sixths / 6).round_().mul_(6)
    centres = torch.arange(0, 6, 2, device=pixels.device).view(3, 1, 1)
    shares = (sixths.unsqueeze(1) - centres).abs_().sub_(3).abs_().sub_(1).clamp_(0, 1)
    return shares.mul_(chroma.unsqueeze(1)).add_(lowest.unsqueeze(1))


def affine_map(pixels: Tensor, parameters: Tensor) -> Tensor:
    """Rotate, shear, scale and translate each image, with bilinear interpolation; areas outside the
    original image are black.

    The map is translation · rotation · scale · shear about the image centre, composed as in
    torchvision.

    Args:
        pixels: float32, shape (B, C, H, W).
        parameters: rotation (radians, clockwise as displayed), horizontal shear (radians),
            logarithm of the scale, translation to the right (in widths) and down (in heights),
            shape (B, 5).

    Returns:
        float32, shape (B, C, H, W).
    """
    height, width = pixels.shape[-2:]
    rotation, shear, log_scale, right, down = parameters.view(-1, 5, 1, 1).unbind(1)
    # Source position of each pixel of the result, in pixels from the centre.
    x = torch.arange(width, device=pixels.device) - (width - 1) / 2 - right * width
    y = (torch.arange(height, device=pixels.device) - (height - 1) / 2).unsqueeze(1) - down * height
    across = x * rotation.cos() + y * rotation.sin()
    along = y * rotation.cos() - x * rotation.sin()
    shrink = log_scale.neg().exp()
    source_x = (across + shear.tan() * along) * shrink / (width / 2)
    source_y = along * shrink / (height / 2)
    grid = torch.stack([source_x, source_y], dim=3)
    return functional.grid_sample(
        pixels, grid, mode="bilinear", padding_mode="zeros", align_corners=False
    )
