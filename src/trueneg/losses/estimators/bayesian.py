"""BCL: weight each negative by the probability that it is a true negative, estimated from its rank
alone.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.losses.anchors import Anchors, NegativeMass, unbounded
from trueneg.losses.base import Estimator
from trueneg.losses.checks import checked_choice, checked_class_probability

FORMS = ("paper", "released", "consistent", "code")
# What the forms of the authors' training code add to the quadratic's leading coefficient, and to
# the normaliser of x_htn.
OFFSETS = {"released": 0.0, "code": 1e-3}


@dataclass(repr=False)
class Bayesian(Estimator):
    r"""Weight negatives by their hardness and their probability of being true negatives: BCL (Liu
    and Wang, 2023).

    .. math:: N g = \sum_n \omega_n e^{u_n},\qquad
              \omega_n = \frac{p(\mathrm{TN}|u_n)\, e^{\beta u_n}}
                              {\overline{p(\mathrm{TN}|u)\, e^{\beta u}}}

    (equations 1 to 3, with x̂ = e^u) where p(TN | u) is :func:`true_negative_probability` at F:

    * ``form="paper"``: F is the empirical distribution function of the anchor's N negatives,
      including ties.
    * ``form="consistent"``: the empirical function describes the mixture of true and false
      negatives, but equation 2 needs the F that underlies both, so F is first recovered from the
      mixture (:func:`recovered_distribution`). At β = 0 the bias vanishes as N grows.
    * ``form="released"``: as in the authors' training code, with F recovered as above, φ₁ = 2(1−F),
      φ₂ = 2F and weights ω = x_htn/(τ⁻x_tn + τ⁺x_fn), where x_tn = αφ₁ + (1−α)φ₂, x_fn = (1−α)φ₁ +
      αφ₂ and x_htn = (α(1−β)φ₁ + (1−α)βφ₂) / (α(1−β) + (1−α)β); here β is a mixing weight in [0.5,
      1]. The weights have mean 1 as N grows.
    * ``form="code"``: the same with the code's two offsets of 10⁻³, one in the quadratic's leading
      coefficient, one in the denominator of x_htn, which make the weights smaller.

    Here τ⁺ = η and τ⁻ = 1 − η. No gradient flows through F, and therefore none through ω in the
    last two forms; gradients do flow through e^(βu). No lower bound is needed because every weight
    is at least 0. At α = 1 the nearest negative has weight 0; if all negatives are equally near,
    they have equal weights.

    Args:
        alpha: α in [0.5, 1], the share of the true negatives that are the farther of two draws of
            the base: 0.5 for an uninformative encoder (all negatives then have equal weights, apart
            from the effect of β). A true negative is farther away than a false one with the
            probability ½ + (2α − 1)/3 (docs/theory.md).
        beta: β ≥ 0, the concentration on near negatives; in [0.5, 1] for the last two forms.
        class_probability: η in [0, 1), a single number or one value per anchor; None if each call
            passes its own.
        form: ``"paper"``, ``"consistent"``, ``"released"`` or ``"code"``.

    Raises:
        ValueError: if a parameter is out of range; also checked at each call, because a schedule
            may change parameters.

    Example:
        >>> negatives = torch.tensor([[0.0, 1.0, 2.0, 3.0]])
        >>> uniform = Bayesian(alpha=0.5, beta=0.0, class_probability=0.1)
        >>> bool(torch.isclose(uniform(torch.zeros(1), negatives), negatives.logsumexp(-1)))
        True
    """

    name = "bcl"
    uses_class_probability = True
    alpha: float = 0.7
    beta: float = 1.0
    class_probability: float | Tensor | None = None
    form: str = "paper"

    def __post_init__(self):
        super().__post_init__()
        self.class_probability = checked_class_probability(self.class_probability)
        self._check()

    def mass(self, anchors: Anchors) -> NegativeMass:
        self._check()
        negatives = anchors.negatives
        eta = anchors.eta(self.class_probability)
        if isinstance(eta, Tensor) and eta.dim() == 1:
            eta = eta[:, None]
        log_weight = self._log_weight(negatives, eta)
        if self.form in OFFSETS:
            return unbounded((negatives + log_weight).logsumexp(-1))
        if self.beta > 0:
            log_weight = log_weight + self.beta * negatives
        return unbounded(
            (log_weight + negatives).logsumexp(-1) - log_weight.logsumexp(-1) + anchors.log_count
        )

    @torch.no_grad()
    def _log_weight(self, negatives: Tensor, eta: float | Tensor) -> Tensor:
        """Return (A, N) log p(TN | u), or log ω for the forms of the training code; −∞ in columns
        that are not negatives.
        """
        # The share of negatives less than or equal to each one. Columns that are not negatives hold
        # −∞ and sort first.
        ordered, columns = negatives.sort(-1)
        place = torch.empty_like(columns).scatter_(
            -1, columns, torch.searchsorted(ordered, ordered, right=True)
        )
        valid = negatives > -math.inf
        count = valid.sum(-1, keepdim=True)
        distribution = (place - (negatives.shape[-1] - count)).to(negatives.dtype) / count
        offset = OFFSETS.get(self.form, 0.0)
        if self.form != "paper":
            distribution = recovered_distribution(distribution, self.alpha, eta, offset)
        if self.form in OFFSETS:
            weight = released_weight(distribution, self.alpha, self.beta, eta, offset)
        else:
            weight = true_negative_probability(distribution, self.alpha, eta)
        log_weight = weight.log().masked_fill(~valid, -math.inf)
        # At α = 1 the highest rank has weight 0; if all negatives share it, they get equal weights.
        equal = log_weight.isneginf().all(-1, keepdim=True)
        return torch.where(equal & valid, 0, log_weight)

    def _check(self) -> None:
        checked_choice("form", self.form, FORMS)
        if not 0.5 <= self.alpha <= 1:
            raise ValueError(f"alpha is {self.alpha}; expected a number from 0.5 to 1.")
        if not 0 <= self.beta < math.inf:
            raise ValueError(f"beta is {self.beta}; expected a finite number of at least 0.")
        if self.form in OFFSETS and not 0.5 <= self.beta <= 1:
            raise ValueError(
                f"beta is {self.beta}, but it is a mixing weight in the {self.form} form;"
                ' expected a number from 0.5 to 1 (for a schedule from 2 to 0, use form="paper" or'
                ' "consistent").'
            )
        if self.form in OFFSETS and self.alpha == self.beta == 1:
            raise ValueError(
                f"alpha and beta are both 1, which leaves no weight in the {self.form} form; lower"
                " one of them."
            )


def true_negative_probability(distribution: Tensor, alpha: float, eta: float | Tensor) -> Tensor:
    """Compute p(TN | x̂) of equation 2 from F; 1 where it is 0/0 (α = 1 and η = 0, at F = 1).

    Args:
        distribution: (A, N) values of F.
        alpha: α.
        eta: τ⁺, a float or a tensor that broadcasts to (A, N).
    """
    true = (1 - eta) * (alpha + (1 - 2 * alpha) * distribution)
    false = eta * ((1 - alpha) + (2 * alpha - 1) * distribution)
    probability = true / (true + false)
    return probability.nan_to_num(nan=1.0) if alpha == 1 else probability


def recovered_distribution(
    mixture: Tensor, alpha: float, eta: float | Tensor, offset: float = 0.0
) -> Tensor:
    r"""Recover F from the mixture's distribution function F_u, as the root in [0, 1] of

    .. math:: (1-2\alpha)(\tau^- - \tau^+) F^2 + 2(\alpha\tau^- + (1-\alpha)\tau^+) F - F_u = 0

    The root is computed without dividing by the quadratic's leading coefficient, which is 0 at α =
    ½ or τ⁺ = ½.

    Args:
        mixture: (A, N) values of F_u.
        alpha: α.
        eta: τ⁺, a float or a tensor that broadcasts to (A, N).
        offset: added to the coefficient of F².
    """
    quadratic = (1 - 2 * alpha) * (1 - 2 * eta)
    linear = 1 - quadratic  # without an offset, the coefficients sum to 1, so F = 1 where F_u = 1
    root = (linear * linear + 4 * (quadratic + offset) * mixture).clamp(min=0).sqrt()
    return (2 * mixture / (linear + root)).clamp(max=1)


def released_weight(
    distribution: Tensor, alpha: float, beta: float, eta: float | Tensor, offset: float = 0.0
) -> Tensor:
    """Compute ω of the authors' training code from F; 1 where it is 0/0 (α = 1 and η = 0, at F =
    1).

    Args:
        distribution: (A, N) values of F.
        alpha: α.
        beta: β in [0.5, 1], but not 1 if α = 1.
        eta: τ⁺, a float or a tensor that broadcasts to (A, N).
        offset: added to the denominator of x_htn.
    """
    first = 2 * (1 - distribution)
    second = 2 * distribution
    true = alpha * first + (1 - alpha) * second
    false = (1 - alpha) * first + alpha * second
    near = (1 - alpha) * beta
    far = alpha * (1 - beta)
    hard = (far * first + near * second) / (far + near + offset)
    weight = hard / ((1 - eta) * true + eta * false)
    return weight.nan_to_num(nan=1.0) if alpha == 1 else weight
