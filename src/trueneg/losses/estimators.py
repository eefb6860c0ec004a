"""Estimators of the true-negative mass N·g: each answers how much of the denominator is true.

For an anchor, ``positive`` holds the logits (scaled similarities) with its positives, ``negatives`` those
with the N samples drawn from the data. Everything stays in log space: a logit scale of 100 is finite in
float32.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trueneg.losses.mass import NegativeMass, debias, debiased_mean, unbounded
from trueneg.losses.sums import log_weighted_sum


class Estimator:
    """The true-negative mass of each anchor; subclasses say how.

    Attributes:
        needs_labels: whether ``same_class`` must be given.
        needs_similarity: whether ``similarity`` must be given.
    """

    needs_labels: ClassVar[bool] = False
    needs_similarity: ClassVar[bool] = False

    def __call__(self, positive, negatives, class_probability=None, floor=None, **known: Tensor) -> Tensor:
        """The log of the true-negative mass, shape (A,); arguments as for :meth:`mass`."""
        return self.mass(positive, negatives, class_probability, floor, **known).log

    def mass(
        self,
        positive: Tensor,
        negatives: Tensor,
        class_probability: float | Tensor | None = None,
        floor: float | Tensor | None = None,
        *,
        same_class: Tensor | None = None,
        similarity: Tensor | None = None,
    ) -> NegativeMass:
        """The log of the true-negative mass, and where it is a bound.

        Args:
            positive: (A,) or (A, M) logits; the first column is the anchor's own positive, the others are
                further draws from its class.
            negatives: (A, N) logits.
            class_probability: η, a number or one per anchor, shape (A,); overrides the estimator's own.
                Estimators without an η take no notice of it.
            floor: the log of the lower bound of g, a number or a tensor that broadcasts to (A,);
                None: no bound. Estimators without a bound take no notice of it.
            same_class: (A, N) bool, whether a negative shares the anchor's class, where ``needs_labels``.
            similarity: (A, N), how alike a negative and the anchor's positive are known to be, where
                ``needs_similarity``.
        """
        raise NotImplementedError

    def mean(self, positive, negatives, class_probability=None, **known: Tensor) -> Tensor:
        """g itself, without a bound, shape (A,): the estimated mean of e^u over the true negatives.

        Not in log space: where a bracket is negative, and its log NaN, this is a number below 0. Arguments as for
        :meth:`mass`.
        """
        log_mass = self.mass(positive, negatives, class_probability, **known).log
        return (log_mass - math.log(negatives.shape[-1])).exp()


@dataclass
class Uncorrected(Estimator):
    r"""Every negative counts as a true one: InfoNCE (Oord et al., 2018), SimCLR (Chen et al., 2020).

    .. math:: N g = \sum_n e^{u_n}

    Example:
        >>> Uncorrected()(torch.zeros(2), torch.zeros(2, 62)).exp().round().tolist()
        [62.0, 62.0]
    """

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        return unbounded(log_weighted_sum(negatives))


@dataclass
class Debiased(Estimator):
    r"""The expected share of false negatives is subtracted: DCL.

    .. math:: N g = \max\Bigl(\frac{\sum_n e^{u_n} - N \eta\, \overline{e^{p}}}{1-\eta},\; N e^{b}\Bigr)

    with b = ``floor`` and the mean of e^p over the M positives. Chuang et al. (2020) for one η;
    Sample-Specific Debiasing (2023), equations 6 to 8, for one per anchor. Without a floor the log of a
    negative bracket is NaN. At η = 0 this is :class:`Uncorrected`.

    Args:
        class_probability: η in [0, 1), the probability that a random sample shares the anchor's class: a
            number, or a tensor of one per anchor, shape (A,). None: each call brings its own.
        smooth_bound: experimental: the log-sum-exp of estimate and bound in place of their maximum, so that
            an anchor's negatives keep a gradient as long as the bracket is positive.

    Raises:
        ValueError: if a class probability is negative, not below 1 or not finite. The values of a tensor on
            an accelerator are not looked at, since that would wait for the device: there a wrong η makes
            the mass NaN.

    Example:
        >>> estimator = Debiased(0.1)
        >>> log_mass = estimator(positive=torch.zeros(2), negatives=torch.zeros(2, 62))
        >>> round(log_mass.exp().tolist()[0], 3)       # nothing to tell apart: the mass is the count
        62.0
    """

    class_probability: float | Tensor | None = None
    smooth_bound: bool = False

    def __post_init__(self):
        self.class_probability = checked_class_probability(self.class_probability)

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        return debias(log_weighted_sum(negatives), positive, negatives.shape[-1], eta, floor, self.smooth_bound)

    def mean(self, positive, negatives, class_probability=None, **known: Tensor) -> Tensor:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        return debiased_mean(log_weighted_sum(negatives), positive, negatives.shape[-1], eta)


@dataclass
class HardNegative(Estimator):
    r"""As :class:`Debiased`, but near negatives weigh more: HCL.

    .. math:: \sum_n e^{u_n} \;\text{becomes}\; \sum_n w_n e^{u_n},\qquad w_n = e^{\beta u_n} / \overline{e^{\beta u}}

    Robinson et al. (2021). The weights are normalised by their mean over the anchor's negatives, and
    gradients flow through them, as in the public code. At β = 0 this is :class:`Debiased`.

    Args:
        beta: β ≥ 0, the concentration on near negatives.
        class_probability: η, as for :class:`Debiased`; 0 for hardness without debiasing.
        smooth_bound: as for :class:`Debiased`.

    Raises:
        ValueError: if β is negative or not finite, or η is outside [0, 1).

    Example:
        >>> negatives = torch.tensor([[0.0, 2.0]]).log()           # e^u = 0 and 2: the far one has no weight
        >>> HardNegative(beta=1.0, class_probability=0.0)(torch.zeros(1), negatives).exp().tolist()
        [4.0]
    """

    beta: float = 1.0
    class_probability: float | Tensor | None = None
    smooth_bound: bool = False

    def __post_init__(self):
        if not 0 <= self.beta < math.inf:
            raise ValueError(f"beta is {self.beta}, expected a finite number of at least 0.")
        self.class_probability = checked_class_probability(self.class_probability)

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        return debias(log_weighted_sum(negatives, self.beta), positive, negatives.shape[-1], eta, floor, self.smooth_bound)

    def mean(self, positive, negatives, class_probability=None, **known: Tensor) -> Tensor:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        return debiased_mean(log_weighted_sum(negatives, self.beta), positive, negatives.shape[-1], eta)


def checked_class_probability(value: float | Tensor | None) -> float | Tensor | None:
    """η itself, if every value lies in [0, 1).

    Raises:
        ValueError: if one does not. On an accelerator the value becomes NaN instead.
    """
    if value is None:
        return None
    if not isinstance(value, Tensor):
        value = float(value)
        if not 0 <= value < 1:  # NaN fails too
            raise ValueError(f"class_probability is {value:g}, expected a number of at least 0 and below 1.")
        return value
    valid = (value >= 0) & (value < 1)
    if value.device.type != "cpu":
        return torch.where(valid, value, math.nan)
    if not valid.all():
        wrong = value[~valid]
        raise ValueError(
            f"class_probability holds {wrong.numel()} of {value.numel()} values outside [0, 1), the first is "
            f"{wrong.flatten()[0]:g}; expected probabilities of at least 0 and below 1."
        )
    return value


def given_class_probability(given: float | Tensor | None, own: float | Tensor | None, negatives: Tensor) -> float | Tensor:
    """The η of a call: the one given, else the estimator's own; a float, or a tensor that broadcasts to (A,).

    Args:
        given: to the call; None: nothing.
        own: the estimator's; None: it has none.
        negatives: (A, N) logits, whose type and device the η gets.

    Raises:
        ValueError: if there is none, it lies outside [0, 1), or it does not have one value per anchor.
    """
    eta = own if given is None else checked_class_probability(given)
    if eta is None:
        raise ValueError("class_probability is missing: give it to the estimator, or to each call.")
    if not isinstance(eta, Tensor):
        return eta
    if eta.dim() > 0 and eta.shape != negatives.shape[:1]:
        raise ValueError(
            f"class_probability has the shape {tuple(eta.shape)}, expected one value per anchor: ({negatives.shape[0]},)."
        )
    return eta.to(dtype=negatives.dtype, device=negatives.device)
