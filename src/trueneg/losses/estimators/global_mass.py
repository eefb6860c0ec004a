"""SogCLR: divide the gradient by a moving average of each anchor's negative mass, so that a small
batch stands for all data.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn

from trueneg.losses.anchors import Anchors, NegativeMass, mass_without, unbounded
from trueneg.losses.base import Estimator
from trueneg.losses.checks import check_index, checked_count, checked_number
from trueneg.losses.execution import PreciseBuffers, gathered
from trueneg.losses.log_space import log_sum_exp


class GlobalMass(Estimator, PreciseBuffers):
    r"""Replace the batch's negative mass, relative to the positive, by a moving average for each
    sample: SogCLR.

    .. math::

        v \leftarrow (1 - \gamma)\,v + \gamma\,\overline{e^{u - p}}, \qquad N g =
        N v\, e^{p}, \qquad
              \nabla \log N g = \nabla p + \frac{\nabla\, \overline{e^{u - p}}}{v}

    Yuan et al. (2022), with the mass relative to the positive (the first of several) as in FastCLIP
    (Wei et al., 2024). A
    sample that has no average yet starts with that of the batch. The loss is log(1 + N v), and its
    gradient is that of the batch's mean divided by 1 / N + v: with :math:`\gamma = 1`, CL's. With
    ``decoupled``, the loss is log N v and the divisor v, as in the authors' code (FastCLIP adds
    10⁻¹⁴ to v; in log space, nothing is needed). With ``filtered``, negatives that are above a
    threshold are left out of the mean and of the average, which N still multiplies (GloFND;
    Balmaseda et al., 2025).

    The averages are kept here, by index: call the loss with ``index``, the numbers of the batch's
    samples among all training samples. Each call in training mode renews them; in evaluation mode,
    they are used and stay. With several processes, all of them get the averages of all samples, so
    that the copies stay equal.

    Args:
        samples: number of training samples.
        rate: γ ∈ (0, 1], weight of the batch in the averages.
        filtered: whether to leave out negatives whose ``similarity``, from which the caller has
            subtracted the anchor's threshold, is above 0. If none remain, the loss is 0, and so is
            the gradient.
        scope: see :class:`~trueneg.losses.Estimator`.

    Attributes:
        log_averages: (2, samples) logarithms of the averages of a sample as the anchor of a loss's
            first and second direction; −∞: none yet.

    Raises:
        ValueError: if the number of samples or the rate is out of range; at a call, if the index is
            missing, or ``similarity`` with ``filtered``.

    Example:
        >>> from trueneg.losses import ContrastiveLoss
        >>> loss = ContrastiveLoss(GlobalMass(samples=1000), temperature=0.1)
        >>> z1, z2 = torch.randn(2, 8, 16, requires_grad=True)
        >>> loss(z1, z2, index=torch.randperm(1000)[:8]).backward()
        >>> int(loss.estimator.log_averages[0].isfinite().sum())
        8
    """

    name = "global"
    keeps_average = True

    def __init__(
        self, samples: int, rate: float = 0.9, filtered: bool = False, *, scope: str = "all"
    ):
        nn.Module.__init__(self)
        Estimator.__init__(self, scope=scope)
        checked_count("samples", samples, "training samples", optional=False)
        if not 0 < checked_number("rate", rate) <= 1:
            raise ValueError(f"rate is {rate}; expected a number above 0 and at most 1.")
        self.rate = rate
        self.filtered = self.needs_similarity = self.marks = filtered
        self.log_averages = nn.Buffer(torch.full((2, samples), -math.inf))

    __repr__ = nn.Module.__repr__

    def extra_repr(self) -> str:
        """Return the settings."""
        return f"samples={self.log_averages.shape[1]}, rate={self.rate}, filtered={self.filtered}"

    def mass(self, anchors: Anchors) -> NegativeMass:
        if not self.filtered:
            return self._of_all(anchors)
        removed = anchors.required("similarity") > 0
        found = mass_without(self._of_all, anchors, removed)
        kept = (~removed & anchors.is_negative).sum(-1).clamp(min=1)
        log_kept = replace(anchors, count=kept).log_count
        return found._replace(log=found.log - log_kept + anchors.log_count, removed=removed)

    def _of_all(self, anchors: Anchors) -> NegativeMass:
        """Return log(N·v·e^p), with the gradient of the batch's mean divided by v."""
        mean = log_sum_exp(anchors.negatives) - anchors.log_count - anchors.own_positive
        current = mean.detach()
        stored = anchors.required("log_average").to(current.dtype)
        previous = torch.where(stored.isneginf(), current, stored)
        log_kept_share = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        average = torch.logaddexp(previous + log_kept_share, current + math.log(self.rate))
        # The second term is 0, and its gradient is that of the mean, divided by the average
        log_ratio = average + (current - average).exp() * (mean - current)
        log_mass = anchors.log_count + log_ratio + anchors.own_positive
        return unbounded(log_mass)._replace(log_average=average)

    def averages_of(self, index: Tensor, side: int = 0) -> Tensor:
        """Return the log averages of samples, (B,), as anchors of a direction.

        Raises:
            ValueError: if an index is out of range.
        """
        check_index(index, self.log_averages.shape[1])
        return self.log_averages[side, index]

    @torch.no_grad()
    def store(self, index: Tensor, log_averages: Tensor) -> None:
        """Keep the averages of a batch; the larger one if it contains a sample twice, and the old
        one where the new one is NaN or +∞, as of embeddings with NaN.

        Args:
            index: (B,) numbers of the samples.
            log_averages: (R, directions, B) new log averages of each sample, whose mean over R is
                kept.
        """
        mean = log_averages.logsumexp(0) - math.log(len(log_averages))
        index = gathered(index)[0].flatten()
        everyone = gathered(mean.contiguous())[0].transpose(0, 1).flatten(1)
        old = self.log_averages[: len(everyone), index]
        everyone = torch.where(everyone < math.inf, everyone.to(old.dtype), old)
        # The largest, because sums of scattered values have no fixed order on a GPU.
        self.log_averages[: len(everyone)].scatter_reduce_(
            1,
            index.expand(len(everyone), -1),
            everyone,
            "amax",
            include_self=False,
        )
