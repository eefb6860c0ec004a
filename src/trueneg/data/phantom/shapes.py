"""Soft shapes and smooth noise for drawing the phantom, without BLAS so that results do not depend
on the number of threads.
"""

import functools
import math

import numpy as np
from numpy import ndarray


def soft_step(inward: ndarray) -> ndarray:
    """Logistic function of the inward distance, in units of the edge width: 0 far outside, 1 far
    inside.
    """
    # Computed with tanh, which numpy vectorises: five times as fast as scipy's expit.
    return 0.5 + 0.5 * np.tanh(0.5 * inward)


def bell(distance: ndarray) -> ndarray:
    """Return a Gaussian of the distance, in units of its width: 1 in the middle."""
    return np.exp(-(distance**2))


def length(first: ndarray, second: ndarray) -> ndarray:
    """Return the Euclidean length; numpy's hypot guards against overflow, which cannot occur here,
    and is five times slower.
    """
    return np.sqrt(first * first + second * second)


def rotated(first: ndarray, second: ndarray, angle: float) -> tuple[ndarray, ndarray]:
    """Return coordinates along axes that are rotated by an angle."""
    cos = math.cos(angle)
    sin = math.sin(angle)
    return cos * first + sin * second, cos * second - sin * first


def joined(first: ndarray, second: ndarray, width: float) -> ndarray:
    """Return a smooth maximum of two inward distances: the notch where the outlines meet is filled
    over a distance of `width`.
    """
    gap = np.maximum(width - np.abs(first - second), 0)
    return np.maximum(first, second) + gap * gap * (0.25 / width)


def smooth_noise(generator: np.random.Generator, cells: int, resolution: int) -> ndarray:
    """Draw (R, R) noise with a standard deviation of about 1 and a grain of 1/n of the image; its
    pattern is the same at any R.

    Args:
        generator: random generator of the noise.
        cells: n, the number of cells along a side.
        resolution: R, the side in pixels.
    """
    first, weights = _spline(cells, resolution)
    grid = generator.standard_normal((cells + 3, cells + 3), dtype=np.float32)
    rows = sum(weights[:, k, None] * grid[first + k] for k in range(4))
    return sum(weights[:, k] * rows[:, first + k] for k in range(4))


@functools.lru_cache(maxsize=16)
def _spline(cells: int, resolution: int) -> tuple[ndarray, ndarray]:
    """Return the first knots (R,) and weights (R, 4) of a cubic B-spline, scaled to preserve the
    mean variance of the noise.
    """
    place = (np.arange(resolution) + 0.5) / resolution * cells
    first = np.floor(place).astype(np.int64)
    distance = np.abs((place - first)[:, None] + 1 - np.arange(4))
    weights = np.where(
        distance < 1, 2 / 3 - distance**2 + distance**3 / 2, np.maximum(2 - distance, 0) ** 3 / 6
    )
    return first, (weights / np.sqrt((weights**2).sum(1).mean())).astype(np.float32)
