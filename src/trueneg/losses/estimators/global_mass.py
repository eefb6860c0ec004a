"""SogCLR: divide the gradient by a moving average of each anchor's negative mass, so that a small
batch stands for all data.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trueneg.losses.base import (
    Estimator,
    NegativeMass,
    checked_shape,
    log_count,
    log_sum_exp,
    own_positive,
    unbounded,
)


@dataclass
class GlobalMass(Estimator):
    r"""Replace the batch's negative mass, relative to the positive, by a moving average for each
    sample: SogCLR.

    .. math::

        v \leftarrow (1 - \gamma)\,v + \gamma\,\overline{e^{u - p}}, \qquad N g =
        N v\, e^{p}, \qquad
              \nabla \log N g = \nabla p + \frac{\nabla\, \overline{e^{u - p}}}{v}

    Yuan et al. (2022), with the mass relative to the positive as in FastCLIP (Wei et al., 2024). A
    sample that has no average yet starts with that of the batch. The loss is log(1 + N v), and its
    gradient is that of the batch's mean divided by 1 / N + v: with :math:`\gamma = 1`, CL's. With
    ``decoupled``, the loss is log N v and the divisor v, as in the authors' code (FastCLIP adds
    10⁻¹⁴ to v; in log space, nothing is needed). The averages are stored by the caller, as
    logarithms, and passed as ``positive_similarity``. ``needs_positive_similarity`` is False,
    because no guide's similarity can replace them. With ``filtered``, negatives that are above a
    threshold are left out of the mean and of the average, which N still multiplies (GloFND;
    Balmaseda et al., 2025).

    Args:
        rate: γ ∈ (0, 1], weight of the batch in the averages.
        keep: called with the new log averages, (A,), of the anchors: once per direction; with
            chunks, once per chunk and pass. An anchor without negatives keeps its average.
        filtered: whether to leave out negatives whose ``similarity``, from which the caller has
            subtracted the anchor's threshold, is above 0. If none remain, the loss is 0, and so is
            the gradient.

    Raises:
        ValueError: if the rate is out of range; at a call, if ``positive_similarity`` is missing,
            or ``similarity`` with ``filtered``.

    Example:
        >>> averages = torch.tensor([4.0, 0.0]).log()  # the second anchor has no average yet
        >>> mass = GlobalMass(rate=0.5)(
        ...     torch.zeros(2), torch.zeros(2, 62), positive_similarity=averages
        ... )
        >>> mass.exp().div(
        ...     62 / 10
        ... ).round().tolist()  # ten times the mean of 4 and 1, and ten times 1
        [25.0, 10.0]
    """

    name: ClassVar[str] = "global"
    rate: float = 0.9
    keep: Callable[[Tensor], object] | None = None
    filtered: bool = False

    def __post_init__(self):
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate is {self.rate}; expected a number above 0 and at most 1.")
        self.needs_similarity = self.marks = self.filtered

    def mass_of_valid(
        self, positive, negatives, valid, *, similarity=None, positive_similarity=None, **_
    ) -> NegativeMass:
        kept = valid
        removed = None
        if self.filtered:
            removed = checked_shape("similarity", similarity, negatives.shape).detach() > 0
            kept = valid & ~removed
        none = ~kept.any(-1)
        # Logits of 0 keep the mean of an anchor without negatives finite; its mass is −∞ below
        logits = negatives.masked_fill(~kept, -math.inf).masked_fill(none[:, None], 0)
        count = kept.sum(-1).clamp(min=1)
        log_ratio = self._log_ratio(positive, logits, positive_similarity, count, none)
        log_n = log_count(negatives, valid.sum(-1).clamp(min=1))
        log_mass = log_n + log_ratio + own_positive(positive)
        return unbounded(log_mass.masked_fill(none, -math.inf), removed)

    def mass(
        self,
        positive,
        negatives,
        *,
        positive_similarity=None,
        count=None,
        **facts,
    ) -> NegativeMass:
        if self.filtered:
            facts["positive_similarity"] = positive_similarity
            return self.mass_of_valid(positive, negatives, ~negatives.isneginf(), **facts)
        log_ratio = self._log_ratio(positive, negatives, positive_similarity, count)
        return unbounded(log_count(negatives, count) + log_ratio + own_positive(positive))

    def _log_ratio(
        self,
        positive: Tensor,
        negatives: Tensor,
        averages: Tensor | None,
        count: int | Tensor | None,
        none: Tensor | None = None,
    ) -> Tensor:
        """Return log v, (A,), with the gradient of the batch's mean divided by v.

        Args:
            positive: (A,) or (A, M) logits.
            negatives: (A, N) logits.
            averages: (A,) log averages before this batch; −∞: none yet.
            count: number of negatives in the mean.
            none: (A,) bool, anchors without negatives; they keep their average.
        """
        if averages is None:
            raise ValueError(
                "positive_similarity is missing; global needs each anchor's log average (−∞: none"
                " yet)."
            )
        stored = checked_shape("positive_similarity", averages, negatives.shape[:1])
        stored = stored.detach().to(negatives.dtype)
        mean = log_sum_exp(negatives) - log_count(negatives, count) - own_positive(positive)
        current = mean.detach()
        previous = torch.where(stored.isneginf(), current, stored)
        log_kept_share = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        average = torch.logaddexp(previous + log_kept_share, current + math.log(self.rate))
        if self.keep is not None:
            self.keep(average if none is None else torch.where(none, stored, average))
        # The second term is 0, and its gradient is that of the mean, divided by the average
        return average + (current - average).exp() * (mean - current)
