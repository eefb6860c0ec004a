"""Training images of a run on two views, with their classes."""

from typing import Any

import numpy as np
import torch
from numpy import ndarray
from torch import Tensor

from trueneg.class_probability import from_class_frequency
from trueneg.data.images.image_source import ImageSource
from trueneg.data.samples import Subset

MEASURED_IMAGES = 1000  # number of held-out images used to measure a parameter


class ViewData:
    """A source's training split: n images.

    Args:
        source: all images.
        subset: subset of the source; ``train`` and, for measurements during training,
            ``validation`` are used.
        device: device of the tensors.
        vectors: stored vectors (N, …) of all images, which take their place.

    Attributes:
        images: (n, channels, H, W) uint8, or the vectors.
        labels: (n,) classes; each unlabelled image has one of its own, below 0, so it has no known
            false negatives.
        rare: (C,) bool, whether a class is rare; on the CPU.
        held_out: images of the validation split and their classes, on the CPU.
        image_rows: positions of the images in the source.
        samples: n.
    """

    def __init__(
        self,
        source: ImageSource,
        subset: Subset,
        device: torch.device,
        vectors: ndarray | None = None,
    ):
        self.source = source
        self._subset = subset
        self._device = device
        self.image_rows = subset.train
        self.samples = len(subset.train)
        images = source.images if vectors is None else vectors
        self.images = torch.from_numpy(images[subset.train]).to(device)
        self._classes = source.labels[subset.train]
        unique = -1 - np.arange(len(self._classes))
        self.labels = torch.from_numpy(np.where(self._classes < 0, unique, self._classes)).to(
            device
        )
        self.rare = torch.tensor(
            [label in subset.rare_classes for label in range(len(source.class_names))]
        )
        held_out = subset.validation
        if len(held_out) > MEASURED_IMAGES:  # a source may be sorted by class
            held_out = np.random.default_rng(subset.seed).permutation(held_out)[:MEASURED_IMAGES]
        self.held_out = (
            torch.from_numpy(images[held_out]),
            torch.from_numpy(source.labels[held_out]),
        )

    def class_probability(self, value: float | str | None) -> float | Tensor | None:
        """Return η: that of a rare class (``low``), of a common one (``high``), or (n,) of each
        image's class (``true``).

        A number is returned unchanged. The η of an unlabelled image is 0, as in the oracle: nothing
        is corrected where the class is unknown.
        """
        if value != "true":
            by_name: dict[Any, Any] = {"low": self._subset.eta_low, "high": self._subset.eta_high}
            return by_name.get(value, value)
        eta = torch.zeros(len(self._classes))
        labelled = self._classes >= 0
        eta[labelled] = torch.as_tensor(
            from_class_frequency(self._classes[labelled]), dtype=torch.float32
        )
        return eta.to(self._device)
