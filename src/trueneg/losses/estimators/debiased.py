"""DCL: the expected share of false negatives is subtracted."""

from dataclasses import dataclass

from torch import Tensor

from trueneg.losses.base import Estimator, NegativeMass, checked_class_probability, given_class_probability
from trueneg.losses.mass import debias, debiased_mean
from trueneg.losses.sums import log_weighted_sum


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
        >>> import torch
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
