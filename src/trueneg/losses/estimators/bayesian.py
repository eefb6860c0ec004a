"""BCL: each negative is weighted by the probability that it is a true one, from its rank alone."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trueneg.losses.base import (
    Estimator,
    NegativeMass,
    checked_class_probability,
    given_class_probability,
    log_count,
    unbounded,
)

FORMS = ("paper", "released", "consistent")


@dataclass
class Bayesian(Estimator):
    r"""Negatives weigh as much as they are likely to be true, and hard: BCL (Liu and Wang, 2023).

    .. math:: N g = \sum_n \omega_n e^{u_n},\qquad
              \omega_n = \frac{p(\mathrm{TN}|u_n)\, e^{\beta u_n}}{\overline{p(\mathrm{TN}|u)\, e^{\beta u}}}

    (equations 1 to 3, with x̂ = e^u) where p(TN | u) is :func:`true_negative_probability` at F:

    * ``form="paper"``: F is the empirical distribution function of the anchor's N negatives, ties counted.
    * ``form="consistent"``: that function is the one of the mixture of true and false negatives, while
      equation 2 asks for the F that both are made from: F is first recovered from it
      (:func:`recovered_distribution`). At β = 0 its bias vanishes as N grows.
    * ``form="released"``: the authors' public code: with F recovered as above, φ₁ = 2(1−F), φ₂ = 2F, weights
      ω = x_htn/(τ⁻x_tn + τ⁺x_fn), where x_tn = αφ₁ + (1−α)φ₂, x_fn = (1−α)φ₁ + αφ₂ and
      x_htn = (α(1−β)φ₁ + (1−α)βφ₂) / (α(1−β) + (1−α)β); here β mixes, and lies in [0.5, 1].

    Here τ⁺ = η and τ⁻ = 1 − η. No gradient flows through F, so none through ω in the released form; it does
    flow through e^(βu). There is no lower bound: every weight is at least 0. At α = 1 the nearest negative's
    weight is 0; where all are equally near, all weigh the same.

    Args:
        alpha: α in [0.5, 1], the probability that a true negative is farther than a false one: 0.5 for an
            encoder that knows nothing (then all negatives weigh the same but for β), 1 for a perfect one.
        beta: β ≥ 0, the concentration on near negatives; in [0.5, 1] for the released form.
        class_probability: η in [0, 1), a number, one per anchor, or None where each call brings its own.
        form: ``"paper"``, ``"released"`` or ``"consistent"``.

    Raises:
        ValueError: if a parameter is out of its range; at a call too, as a schedule may have changed it.

    Example:
        >>> negatives = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
        >>> uniform = Bayesian(alpha=0.5, beta=0.0, class_probability=0.1)
        >>> bool(torch.isclose(uniform(torch.zeros(1), negatives), negatives.logsumexp(-1)))
        True
    """

    name: ClassVar[str] = "bcl"
    alpha: float = 0.7
    beta: float = 1.0
    class_probability: float | Tensor | None = None
    form: str = "paper"

    def __post_init__(self):
        self.class_probability = checked_class_probability(self.class_probability)
        self._check()

    def mass(self, positive, negatives, class_probability=None, floor=None, *, count=None, **_) -> NegativeMass:
        self._check()
        eta = given_class_probability(class_probability, self.class_probability, negatives)
        if isinstance(eta, Tensor) and eta.dim() == 1:
            eta = eta[:, None]
        log_weight = self._log_weight(negatives, eta)
        if self.form == "released":
            return unbounded((negatives + log_weight).logsumexp(-1))
        if self.beta > 0:
            log_weight = log_weight + self.beta * negatives
        return unbounded((log_weight + negatives).logsumexp(-1) - log_weight.logsumexp(-1) + log_count(negatives, count))

    @torch.no_grad()
    def _log_weight(self, negatives: Tensor, eta: float | Tensor) -> Tensor:
        """(A, N) log p(TN | u), or log ω of the released form; −∞ in columns that are no negatives."""
        # The share of negatives at most as large, ties counted. What is no negative is −∞, and comes first.
        ordered, columns = negatives.sort(-1)
        place = torch.empty_like(columns).scatter_(-1, columns, torch.searchsorted(ordered, ordered, right=True))
        valid = negatives > -math.inf
        count = valid.sum(-1, keepdim=True)
        distribution = (place - (negatives.shape[-1] - count)).to(negatives.dtype) / count
        if self.form != "paper":
            distribution = recovered_distribution(distribution, self.alpha, eta)
        if self.form == "released":
            weight = released_weight(distribution, self.alpha, self.beta, eta)
        else:
            weight = true_negative_probability(distribution, self.alpha, eta)
        log_weight = weight.log().masked_fill(~valid, -math.inf)
        # At α = 1 the last place weighs nothing; where all share it, they weigh the same.
        equal = log_weight.isneginf().all(-1, keepdim=True)
        return torch.where(equal & valid, 0, log_weight)

    def _check(self) -> None:
        if self.form not in FORMS:
            raise ValueError(f"form is {self.form!r}, expected one of {', '.join(FORMS)}.")
        if not 0.5 <= self.alpha <= 1:
            raise ValueError(f"alpha is {self.alpha}, expected a number from 0.5 to 1.")
        if not 0 <= self.beta < math.inf:
            raise ValueError(f"beta is {self.beta}, expected a finite number of at least 0.")
        if self.form == "released" and not 0.5 <= self.beta <= 1:
            raise ValueError(
                f"beta is {self.beta}, but the released form mixes two densities with it: expected a number "
                'from 0.5 to 1 (a schedule from 2 to 0 belongs to form="paper" or "consistent").'
            )
        if self.form == "released" and self.alpha == self.beta == 1:
            raise ValueError("alpha and beta are both 1, where the released form's weights are 0/0.")


def true_negative_probability(distribution: Tensor, alpha: float, eta: float | Tensor) -> Tensor:
    """p(TN | x̂) of equation 2, from F; 1 where it is 0/0 (α = 1 and η = 0, at F = 1).

    Args:
        distribution: (A, N) values of F.
        alpha: α.
        eta: τ⁺, a float or a tensor that broadcasts to (A, N).
    """
    true = (1 - eta) * (alpha + (1 - 2 * alpha) * distribution)
    false = eta * ((1 - alpha) + (2 * alpha - 1) * distribution)
    probability = true / (true + false)
    return probability.nan_to_num(nan=1.0) if alpha == 1 else probability


def recovered_distribution(mixture: Tensor, alpha: float, eta: float | Tensor) -> Tensor:
    r"""F of which the mixture's distribution function F_u is made, the root in [0, 1] of

    .. math:: (1-2\alpha)(\tau^- - \tau^+) F^2 + 2(\alpha\tau^- + (1-\alpha)\tau^+) F - F_u = 0

    Written so that nothing is divided by the quadratic's leading coefficient, which is 0 at α = ½ or τ⁺ = ½.

    Args:
        mixture: (A, N) values of F_u.
        alpha: α.
        eta: τ⁺, a float or a tensor that broadcasts to (A, N).
    """
    quadratic = (1 - 2 * alpha) * (1 - 2 * eta)
    linear = 1 - quadratic  # the coefficients sum to 1: F is 1 where F_u is
    root = (linear * linear + 4 * quadratic * mixture).clamp(min=0).sqrt()
    return (2 * mixture / (linear + root)).clamp(max=1)


def released_weight(distribution: Tensor, alpha: float, beta: float, eta: float | Tensor) -> Tensor:
    """ω of the authors' public code, from F; 1 where it is 0/0 (α = 1 and η = 0, at F = 1).

    Args:
        distribution: (A, N) values of F.
        alpha: α.
        beta: β in [0.5, 1], not 1 if α is.
        eta: τ⁺, a float or a tensor that broadcasts to (A, N).
    """
    first, second = 2 * (1 - distribution), 2 * distribution
    true = alpha * first + (1 - alpha) * second
    false = (1 - alpha) * first + alpha * second
    near, far = (1 - alpha) * beta, alpha * (1 - beta)
    hard = (far * first + near * second) / (far + near)
    weight = hard / ((1 - eta) * true + eta * false)
    return weight.nan_to_num(nan=1.0) if alpha == 1 else weight
