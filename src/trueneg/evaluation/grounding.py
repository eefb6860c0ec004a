"""Grounding: agreement between a heatmap of region–sentence scores and the box drawn by a
reader.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy import ndarray
from scipy.ndimage import gaussian_filter
from torch.nn import functional
from torchvision import tv_tensors
from torchvision.transforms.v2.functional import center_crop

from trueneg.evaluation.retrieval import as_array

# −1, −0.95, … 1: the 41 thresholds of Sample-Specific Debiasing (2023), section 3.2.
THRESHOLDS = tuple(step / 20 for step in range(-20, 21))


def contrast_to_noise_ratio(heatmap, mask, *, signed: bool = False) -> float:
    r"""Measure how far scores inside a box stand out from scores outside it.

    .. math::

        \mathrm{CNR} = \frac{|\mu_\text{in} - \mu_\text{out}|}{\sqrt{\sigma^2_\text{in} +
        \sigma^2_\text{out}}}

    with population variances, as defined by BioViL (Boecking et al., 2022). The absolute value
    rewards a map that is LOW inside the box as much as one that is high, so report the sign too.
    Scaling or shifting the map does not change the ratio, except that a negative factor flips the
    sign.

    Args:
        heatmap: (H, W) scores; NaN where the image was cropped away; these pixels are ignored.
        mask: (H, W) bool, true inside the box or boxes.
        signed: keep the sign of :math:`\mu_\text{in} - \mu_\text{out}`.

    Returns:
        The ratio. If neither part varies: 0 for equal means, otherwise infinite.

    Raises:
        ValueError: if shapes differ, the mask is not bool, or the pixels with a score are all
            inside or all outside the mask.

    Example:
        >>> heatmap = np.array([[3.0, 5.0], [0.0, 2.0]])
        >>> round(
        ...     contrast_to_noise_ratio(heatmap, np.array([[True, True], [False, False]])), 3
        ... )  # 3 / √(1 + 1)
        2.121
    """
    scores, inside = _pixels(heatmap, mask)
    if inside.all():
        raise ValueError("the mask covers all pixels with a score; expected some outside the mask")
    mean_in, variance_in = _moments(scores[inside])
    mean_out, variance_out = _moments(scores[~inside])
    difference = mean_in - mean_out
    noise = np.sqrt(variance_in + variance_out)
    ratio = (
        difference / noise if noise > 0 else np.copysign(np.inf, difference) if difference else 0.0
    )
    return float(ratio if signed else abs(ratio))


def intersection_over_union(heatmap, mask, thresholds: Sequence[float] = THRESHOLDS) -> float:
    r"""Compute the overlap of a thresholded heatmap with a box, averaged over thresholds.

    .. math:: \frac{1}{|\Theta|} \sum_{\theta \in \Theta}
              \frac{|\{h > \theta\} \cap B|}{|\{h > \theta\} \cup B|}

    This follows Sample-Specific Debiasing (2023), section 3.2, for one box; the paper's mIoU is the
    mean over boxes. A threshold that no score exceeds contributes 0. Unlike the contrast-to-noise
    ratio, the result DEPENDS ON THE SCALE of the scores: pass raw cosines, for which the thresholds
    were chosen. Do not compare rescaled maps with raw ones, or results for different thresholds
    (BioViL uses 0.1 … 0.5).

    Args:
        heatmap: (H, W) scores; NaN where the image was cropped away; these pixels are ignored.
        mask: (H, W) bool, true inside the box or boxes.
        thresholds: thresholds to average over.

    Returns:
        The mean overlap, in [0, 1].

    Raises:
        ValueError: if shapes differ, the mask is not bool or contains no pixel with a score, or
            there are no thresholds.

    Example:
        >>> heatmap = np.array([[0.9, 0.6], [0.6, -0.1]])
        >>> mask = np.array([[True, False], [False, False]])
        >>> intersection_over_union(
        ...     heatmap, mask, thresholds=[-0.5, 0.5, 0.7, 0.95]
        ... )  # 1/4, 1/3, 1, 0
        0.3958333333333333
    """
    scores, inside = _pixels(heatmap, mask)
    if not len(thresholds):
        raise ValueError("thresholds is empty; expected at least one")
    box = scores[inside]
    rest = scores[~inside]
    overlaps = [
        np.count_nonzero(box > theta) / (len(box) + np.count_nonzero(rest > theta))
        for theta in thresholds
    ]
    return float(np.mean(overlaps))


def mean_by_category(values: Sequence[float], categories: Sequence[str]) -> dict[str, float]:
    """Compute the mean over boxes (``"mean"``), the mean of the category means (``"macro"``), and
    each category's mean.

    Example:
        >>> mean_by_category([1.0, 2.0, 6.0], ["edema", "edema", "effusion"])
        {'macro': 3.75, 'edema': 1.5, 'effusion': 6.0, 'mean': 3.0}
    """
    category = np.asarray(categories)
    means = {
        name: float(np.asarray(values)[category == name].mean()) for name in sorted(set(categories))
    }
    return {"macro": float(np.mean(list(means.values()))), **means, "mean": float(np.mean(values))}


def upsample(heatmap, size: tuple[int, int], *, smoothing: float = 0.0) -> ndarray:
    """Upsample heatmaps from the region grid to the resolution of the image.

    Interpolation is bilinear, with grid values at the centres of their cells
    (``align_corners=False``); values are not rescaled.

    Args:
        heatmap: (h, w) or (n, h, w), array or tensor.
        size: (H, W) in pixels.
        smoothing: standard deviation, in grid cells, of a Gaussian filter applied first; BioViL
            uses 1.5. 0 disables it.

    Returns:
        float32, (H, W) or (n, H, W).

    Example:
        >>> upsample(np.array([[0.0, 1.0]]), (1, 4)).tolist()
        [[0.0, 0.25, 0.75, 1.0]]
    """
    grid = as_array(heatmap).astype(np.float32)
    if smoothing:
        grid = gaussian_filter(grid, smoothing, axes=(-2, -1))
    stacked = torch.from_numpy(grid.reshape(1, -1, *grid.shape[-2:]))
    return (
        functional.interpolate(stacked, size=size, mode="bilinear")
        .numpy()
        .reshape(*grid.shape[:-2], *size)
    )


def boxes_in_crop(boxes, image: tuple[int, int], crop: tuple[int, int]) -> ndarray:
    """Convert boxes to the coordinates of an image's central crop, and clip them to the crop.

    Args:
        boxes: (n, 4) corners (x0, y0, x1, y1) in pixels; coordinates refer to pixel edges: the
            image is (0, 0, width, height).
        image, crop: (height, width).

    Returns:
        float64, (n, 4); boxes outside the crop have zero area.

    Example:
        >>> boxes_in_crop([[0, 20, 60, 60]], image=(100, 100), crop=(80, 80)).tolist()
        [[0.0, 10.0, 50.0, 50.0]]
    """
    drawn = tv_tensors.BoundingBoxes(np.array(boxes, np.float64), format="XYXY", canvas_size=image)
    return center_crop(drawn, list(crop)).numpy()


def box_masks(boxes, size: tuple[int, int]) -> ndarray:
    """Mask the pixels whose centres lie in each box.

    Args:
        boxes: (n, 4) corners (x0, y0, x1, y1) in pixels; coordinates refer to pixel edges.
        size: (H, W).

    Returns:
        bool, (n, H, W). ``.any(0)`` is the union, for a phrase with several boxes.

    Example:
        >>> box_masks([[1, 0, 3, 1]], (2, 4)).astype(int).tolist()
        [[[0, 1, 1, 0], [0, 0, 0, 0]]]
    """
    y, x = (np.arange(side) + 0.5 for side in size)
    x0, y0, x1, y1 = np.asarray(boxes, np.float64).T[:, :, None]
    rows = (y0 <= y) & (y < y1)
    columns = (x0 <= x) & (x < x1)
    return rows[:, :, None] & columns[:, None, :]


def _pixels(heatmap, mask) -> tuple[ndarray, ndarray]:
    """Return the non-NaN scores and a mask of those inside the box."""
    heatmap = as_array(heatmap)
    mask = as_array(mask)
    if heatmap.ndim != 2 or heatmap.shape != mask.shape or mask.dtype != bool:
        raise ValueError(
            f"heatmap is {heatmap.shape} and mask {mask.dtype} {mask.shape}; expected (H, W) and"
            " bool (H, W)"
        )
    has_score = ~np.isnan(heatmap)
    inside = mask[has_score]
    if not inside.any():
        raise ValueError("the mask covers no pixel with a score")
    return heatmap[has_score].astype(np.float64), inside


def _moments(values: ndarray) -> tuple[float, float]:
    """Return mean and population variance; the variance of equal values is exactly 0, free of
    rounding error in the mean.
    """
    if values.min() == values.max():
        return values[0], 0.0
    return values.mean(), values.var()
