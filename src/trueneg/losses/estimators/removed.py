"""Remove negatives that are too similar to the positive."""

import math
from dataclasses import dataclass

from torch import Tensor

from trueneg.losses.anchors import Anchors
from trueneg.losses.base import Selecting
from trueneg.losses.checks import checked_count
from trueneg.losses.log_space import is_nearest


@dataclass(repr=False)
class Removed(Selecting):
    r"""Remove negatives that are too similar to the positive.

    .. math:: N g = \sum_{n:\, s_n \le \theta \;\text{or}\; n \notin \mathrm{top}_k} e^{u_n}

    N is the number of remaining negatives. To remove by label, set the similarity to 1 for samples
    that share a label and 0 otherwise, and use any threshold in [0, 1). With ``top_k``, this is
    False Negative Cancellation by elimination (Huynh et al., 2022). An anchor with no remaining
    negatives has zero mass, so its loss and gradient are 0.

    Args:
        threshold: θ, the largest similarity that is kept.
        top_k: remove at most the k most similar samples of an anchor; if the k-th ties with the
            next one, all samples as similar as these are kept. With two views, the similarity of a
            sample is the larger of its views' similarities, and both views are removed. None: no
            limit.

    Raises:
        ValueError: if the threshold is not a finite number, or ``top_k`` is not a positive integer.

    Example:
        >>> import torch
        >>> similarity = torch.tensor([[0.9, 0.1, -0.2]])
        >>> Removed(0.5)(
        ...     torch.zeros(1), torch.zeros(1, 3), similarity=similarity
        ... ).exp().round().tolist()
        [2.0]
    """

    name = "remove"
    needs_similarity = True
    compares_samples = True
    threshold: float = 0.5
    top_k: int | None = None

    def __post_init__(self):
        super().__post_init__()
        if not math.isfinite(self.threshold):
            raise ValueError(f"threshold is {self.threshold}; expected a finite number.")
        checked_count("top_k", self.top_k, "samples")

    def marked(self, anchors: Anchors) -> Tensor:
        similarity = anchors.required("similarity")
        if self.top_k is None:
            return similarity > self.threshold
        similarity = similarity.masked_fill(~anchors.is_negative, -math.inf)
        nearest = anchors.by_sample(similarity)
        return anchors.by_column(is_nearest(nearest, self.threshold, self.top_k))
