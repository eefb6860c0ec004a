"""Measurements that are means of one value per held-out sample, and their values, so that intervals
can cover new samples, too.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy import ndarray


class PerSample(NamedTuple):
    """A measurement and what it is the mean of.

    Attributes:
        mean: the measurement.
        samples: positions in the source's samples, (n,).
        values: their values, (n,).
        classes: names of their classes (``label``) and of those that a classifier predicts
            (``predicted``), (n,); empty: nothing is classified.
    """

    mean: float
    samples: ndarray
    values: ndarray
    classes: Mapping[str, ndarray] = MappingProxyType({})

    def __float__(self) -> float:
        return float(self.mean)


def of_balanced(correct: ndarray, labels: ndarray) -> ndarray:
    """Return values whose mean is the balanced accuracy: the mean over labels of the accuracy.

    Example:
        >>> of_balanced(np.array([True, False, True]), np.array([0, 0, 1])).tolist()
        [0.75, 0.0, 1.5]
    """
    _, label, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    return correct * len(labels) / (len(sizes) * sizes[label])
