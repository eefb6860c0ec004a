"""SogCLR: divide the gradient by a moving average of each anchor's negative mass, so that a small
batch stands for all data.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, log1p
from typing import ClassVar

import torch
from torch import Tensor

from trueneg.losses.base import (
    Estimator,
    NegativeMass,
    checked_shape,
    log_count,
    log_sum_exp,
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
        self,
        positive,
        negatives,
        valid,
        class_probability=None,
        floor=None,
        *,
        similarity=None,
        **facts,
    ) -> NegativeMass:
        if not self.filtered:
            return super().mass_of_valid(positive, negatives, valid, **facts, empty=~valid.any(-1))
        removed = checked_shape("similarity", similarity, negatives.shape).detach() > 0
        kept = valid & ~removed
        mass = super().mass_of_valid(positive, negatives, kept, **facts, empty=~kept.any(-1))
        log_valid, log_kept = (
            each.sum(-1).clamp(min=1).to(mass.log.dtype).log() for each in (valid, kept)
        )
        return mass._replace(log=mass.log + log_valid - log_kept, removed=removed)

    def mass(
        self,
        positive,
        negatives,
        class_probability=None,
        floor=None,
        *,
        positive_similarity=None,
        count=None,
        empty=None,
        **facts,
    ) -> NegativeMass:
        if self.filtered and empty is None:
            known = {
                "similarity": facts.get("similarity"),
                "positive_similarity": positive_similarity,
            }
            return self.mass_of_valid(positive, negatives, ~negatives.isneginf(), **known)
        if positive_similarity is None:
            raise ValueError(
                "positive_similarity is missing; global needs each anchor's log average (−∞: none"
                " yet)."
            )
        stored = (
            checked_shape("positive_similarity", positive_similarity, negatives.shape[:1])
            .detach()
            .to(negatives.dtype)
        )
        own, size = positive if positive.dim() == 1 else positive[:, 0], log_count(negatives, count)
        mean = log_sum_exp(negatives) - size - own
        current = mean.detach()
        previous = torch.where(stored.isneginf(), current, stored) + (
            log1p(-self.rate) if self.rate < 1 else -inf
        )
        average = torch.logaddexp(previous, current + log(self.rate))
        if self.keep is not None:
            self.keep(average if empty is None else torch.where(empty, stored, average))
        # The second term has the value 0, and the gradient of the batch's mean divided by the
        # average.
        return unbounded(size + average + (current - average).exp() * (mean - current) + own)
