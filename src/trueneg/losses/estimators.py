"""Estimators of the true-negative mass N·g: one for each published answer to "how many of the negatives are false?".

For an anchor, ``positive`` holds the logits (scaled similarities) with its positives and ``negatives`` those with the N samples
drawn from the data. Everything stays in log space, so that a logit scale of 100 is finite in float32.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor


class NegativeMass(NamedTuple):
    """What an estimator says about each anchor.

    Attributes:
        log: (A,) log(N·g).
        at_bound: (A,) bool: the estimate was replaced by its lower bound, so the negatives get no gradient.
    """

    log: Tensor
    at_bound: Tensor


class Estimator:
    """The true-negative mass of each anchor; subclasses say how.

    Attributes:
        needs_labels: whether ``same_class`` must be given.
        needs_similarity: whether ``similarity`` must be given.
    """

    needs_labels: ClassVar[bool] = False
    needs_similarity: ClassVar[bool] = False

    def __call__(self, positive: Tensor, negatives: Tensor, class_probability=None, floor=None, **pairs: Tensor) -> Tensor:
        """The log of the true-negative mass, shape (A,); arguments as for :meth:`mass`."""
        return self.mass(positive, negatives, class_probability, floor, **pairs).log

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
            positive: (A,) or (A, M) logits; the first column is the anchor's own positive, the others are further draws from
                its class.
            negatives: (A, N) logits.
            class_probability: η, a number or one per anchor, shape (A,); overrides the estimator's own. Estimators without
                an η take no notice of it.
            floor: the log of the lower bound of g, a number or a tensor that broadcasts to (A,); None: no bound.
            same_class: (A, N) bool, whether a negative shares the anchor's class, where ``needs_labels``.
            similarity: (A, N), how alike a negative and the anchor's positive are known to be, where ``needs_similarity``.
        """
        raise NotImplementedError


@dataclass
class Uncorrected(Estimator):
    r"""Every negative counts as a true one: InfoNCE (Oord et al., 2018), SimCLR (Chen et al., 2020).

    .. math:: N g = \sum_n e^{u_n}

    Example:
        >>> Uncorrected()(torch.zeros(2), torch.zeros(2, 62)).exp().round().tolist()
        [62.0, 62.0]
    """

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        return _unbounded(negatives.logsumexp(-1))


@dataclass
class Debiased(Estimator):
    r"""The expected share of false negatives is subtracted.

    .. math:: N g = \max\Bigl(\frac{\sum_n e^{u_n} - N \eta\, \overline{e^{p}}}{1-\eta},\; N e^{b}\Bigr)

    with b = ``floor`` and the mean of e^p over the M positives. Chuang et al. (2020) for one η; Sample-Specific Debiasing
    (2023), equations 6 to 8, for one per anchor. Without a floor the log of a negative bracket is NaN. At η = 0 the mass is
    :class:`Uncorrected`'s.

    Args:
        class_probability: η in [0, 1), the probability that a random sample shares the anchor's class: a number, or a tensor
            of one per anchor, shape (A,). None: each call brings its own.
        smooth_bound: experimental; add the bound to the estimate (log-sum-exp) in place of taking the larger one, so that an
            anchor's negatives keep a gradient until the bracket is negative.

    Raises:
        ValueError: if a class probability is negative, not below 1 or not finite. A tensor on an accelerator is not looked
            at, since that would wait for the device: an η outside [0, 1) makes the mass NaN there.

    Example:
        >>> estimator = Debiased(0.1)
        >>> log_mass = estimator(positive=torch.zeros(2), negatives=torch.zeros(2, 62))
        >>> round(log_mass.exp().tolist()[0], 3)       # nothing to tell apart: the mass is the count
        62.0
    """

    class_probability: float | Tensor | None = None
    smooth_bound: bool = False

    def __post_init__(self):
        if self.class_probability is not None:
            self.class_probability = checked_class_probability(self.class_probability)

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        return self._subtract(negatives.logsumexp(-1), positive, negatives.shape[-1], eta, floor)

    def _subtract(self, log_sum: Tensor, positive: Tensor, count: int, eta: Tensor | float, floor) -> NegativeMass:
        """From the log of the (weighted) sum over all negatives to the mass of the true ones."""
        if isinstance(eta, float) and eta == 0:
            return _unbounded(log_sum)
        # The expected false negatives' part of the sum. Where it is not below 1 the bracket is not positive. The exponent is
        # capped (far beyond that) because the gradient of an infinite exponential is NaN even where it is not used.
        log_ratio = _log_mean_exp(positive) - log_sum + math.log(count)
        share = eta * log_ratio.clamp(max=math.log(torch.finfo(log_sum.dtype).max) - 1).exp()
        log_rest = math.log1p(-eta) if isinstance(eta, float) else torch.log1p(-eta)
        if floor is None:
            return _unbounded(log_sum + torch.log1p(-share) - log_rest)
        negative = share >= 1
        estimate = log_sum + torch.log1p(-share.masked_fill(negative, 0)) - log_rest
        bound = torch.as_tensor(floor, dtype=estimate.dtype, device=estimate.device) + math.log(count)
        if self.smooth_bound:
            return NegativeMass(torch.where(negative, bound, torch.logaddexp(estimate, bound)), negative)
        # At η = 0 nothing was subtracted: a sum of exponentials needs no guard, only rounding could put it below the bound.
        at_bound = (negative | (estimate < bound)) & (share > 0)
        return NegativeMass(torch.where(at_bound, bound, estimate), at_bound)


@dataclass
class Oracle(Estimator):
    r"""The mass over the negatives that are known to be true ones: what could be gained, never a method.

    .. math:: N g = \sum_{n \in \mathrm{TN}} e^{u_n}

    False negatives are left out. An anchor without a true negative has no mass: its loss is 0, its gradient zero.

    Example:
        >>> same_class = torch.tensor([[True, False, False]])
        >>> Oracle()(torch.zeros(1), torch.zeros(1, 3), same_class=same_class).exp().round().tolist()
        [2.0]
    """

    needs_labels: ClassVar[bool] = True

    def mass(self, positive, negatives, class_probability=None, floor=None, *, same_class=None, similarity=None) -> NegativeMass:
        if same_class is None:
            raise ValueError("Oracle needs same_class, (A, N) bool: which negatives share the anchor's class.")
        return _unbounded(masked_logsumexp(negatives, same_class))


def masked_logsumexp(values: Tensor, left_out: Tensor) -> Tensor:
    """log Σ e^values over the last dimension without the entries left out; −∞ with zero gradient where none is left.

    Args:
        values: (A, N).
        left_out: (A, N) bool.

    Returns:
        (A,).
    """
    none_left = left_out.all(-1, keepdim=True)
    # A row of −∞ alone would have a NaN gradient: such a row is summed whole, then replaced.
    log_sum = values.masked_fill(left_out & ~none_left, -math.inf).logsumexp(-1)
    return log_sum.masked_fill(none_left.squeeze(-1), -math.inf)


def checked_class_probability(value: float | Tensor) -> float | Tensor:
    """η itself, if every value lies in [0, 1).

    Raises:
        ValueError: if one does not.
    """
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
            f"class_probability holds {wrong.numel()} of {value.numel()} values outside [0, 1), the first is {wrong[0]:g}; "
            "expected probabilities of at least 0 and below 1."
        )
    return value


def given_class_probability(given: float | Tensor | None, own: float | Tensor | None, negatives: Tensor) -> float | Tensor:
    """The η of a call: the one given, else the estimator's own; a float, or a tensor that broadcasts to (A,).

    Raises:
        ValueError: if there is none, it lies outside [0, 1), or it does not have one value per anchor.
    """
    if given is None:
        eta = own
    else:
        eta = checked_class_probability(given)
    if eta is None:
        raise ValueError("class_probability is missing: give it to the estimator, or to each call.")
    if isinstance(eta, Tensor):
        if eta.dim() > 1 or (eta.dim() == 1 and eta.shape[0] != negatives.shape[0]):
            raise ValueError(
                f"class_probability has the shape {tuple(eta.shape)}, expected one value per anchor: ({negatives.shape[0]},)."
            )
        eta = eta.to(dtype=negatives.dtype, device=negatives.device)
    return eta


def _log_mean_exp(positive: Tensor) -> Tensor:
    if positive.dim() == 1:
        return positive
    if positive.shape[-1] == 1:
        return positive.squeeze(-1)
    return positive.logsumexp(-1) - math.log(positive.shape[-1])


def _unbounded(log_mass: Tensor) -> NegativeMass:
    return NegativeMass(log_mass, torch.zeros_like(log_mass, dtype=torch.bool))
