"""What an estimator sees of its anchors, and what it returns.

For each anchor, ``positive`` holds its logits (scaled similarities) with its positives, and
``negatives`` its logits with the N samples drawn from the data. All computation stays in log space,
so a logit scale of 100 does not overflow in float32.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from trueneg.losses.checks import checked_class_probability, checked_shape

SCOPES = ("all", "in_batch", "hard")


class NegativeMass(NamedTuple):
    """An estimator's output for each anchor.

    Attributes:
        log: (A,) log(N·g).
        at_bound: (A,) bool, True where the lower bound replaced the estimate, so the negatives get
            no gradient.
        removed: (A, K) share of each negative that is left out: bool, or one minus its weight; None
            if nothing is left out. Columns that are not negatives hold arbitrary values.
        log_average: (A,) new logarithm of the moving average of each anchor's mass; None: the
            estimator keeps none.
    """

    log: Tensor
    at_bound: Tensor
    removed: Tensor | None = None
    log_average: Tensor | None = None


def unbounded(log_mass: Tensor, removed: Tensor | None = None) -> NegativeMass:
    """Wrap the log mass of an estimator that has no bound."""
    return NegativeMass(log_mass, torch.zeros_like(log_mass, dtype=torch.bool), removed)


@dataclass
class Anchors:
    """A anchors, their positives and K columns.

    Attributes:
        positive: (A,) or (A, M) logits p; the first ``partners`` columns are the anchor's own
            positives, the others are further draws from its class.
        negatives: (A, K) logits u; columns that are not negatives of the anchor hold −∞ and must
            get the gradient 0, as from every function of e^u. ``count`` is then given.
        count: N, a single number or one value per anchor, shape (A,); None: K.
        temperature: t, by which similarities in [−1, 1] were divided: a number or a tensor that
            broadcasts to (A,). Then e^u ≥ e^(−1/t), which bounds g; None: g has no bound.
        class_probability: η, a single number or one value per anchor, shape (A,); None: the
            estimator's own.
        same_class: (A, K) bool, whether a column shares the anchor's class.
        similarity: (A, K) known similarity between a column and the anchor's positive.
        threshold: (A,) the similarity that a guide gives the anchor and its own positive, or
            another one above which a column counts as false.
        hard: (A, K) bool, which columns are the anchor's hard negatives; None: none.
        log_probability: (A, K) log q, the logarithm of the probability with which a column's sample
            is drawn, minus that of the anchor's positive.
        log_average: (A,) logarithm of the moving average of the anchor's mass; −∞: none yet.
        views: V, if the first columns are V blocks of the same samples in the same order.
        further: number of columns after these blocks.
        partners: number of the anchor's own positives.
        bias: scalar, the bias of the sigmoid loss, in place of its own.

    Raises:
        ValueError: if a shape is wrong, or a class probability is outside [0, 1).
    """

    positive: Tensor
    negatives: Tensor
    count: int | Tensor | None = None
    temperature: float | Tensor | None = None
    class_probability: float | Tensor | None = None
    same_class: Tensor | None = None
    similarity: Tensor | None = None
    threshold: Tensor | None = None
    hard: Tensor | None = None
    log_probability: Tensor | None = None
    log_average: Tensor | None = None
    views: int = 1
    further: int = 0
    partners: int = 1
    bias: Tensor | None = None

    def __post_init__(self):
        for name in ("same_class", "similarity", "hard", "log_probability"):
            if (values := getattr(self, name)) is not None:
                checked_shape(name, values, self.negatives.shape)
        for name in ("threshold", "log_average"):
            if (values := getattr(self, name)) is not None:
                checked_shape(name, values, self.negatives.shape[:1])

    @property
    def own_positive(self) -> Tensor:
        """(A,) logits of the anchors' own positives, the first of each."""
        return self.positive if self.positive.dim() == 1 else self.positive[:, 0]

    @property
    def own_positives(self) -> Tensor:
        """(A,) logits of the anchors' own positives or, with several of them, (A, partners)."""
        if self.partners == 1:
            return self.own_positive
        return self.positive[:, : self.partners]

    @property
    def log_mean_positive(self) -> Tensor:
        """(A,) logarithm of the mean of e^p over the M positives."""
        if self.positive.dim() == 1:
            return self.positive
        return self.positive.logsumexp(-1) - math.log(self.positive.shape[-1])

    @property
    def log_count(self) -> Tensor:
        """(A,) log N."""
        if isinstance(self.count, Tensor):
            return self.count.to(self.negatives.dtype).log()
        count = math.log(self.count or self.negatives.shape[-1])
        return self.negatives.new_full(self.negatives.shape[:1], count)

    @property
    def is_negative(self) -> Tensor:
        """(A, K) bool, whether a column is a negative of its anchor."""
        return ~self.negatives.isneginf()

    @property
    def cosines(self) -> Tensor:
        """(A, K) cosines of anchors and columns, without gradient; −∞ where a column is none.

        Raises:
            ValueError: if the temperature is missing.
        """
        temperature = self.temperature
        if temperature is None:
            raise ValueError(
                "temperature is missing; the estimator needs it to turn logits into cosines."
            )
        if isinstance(temperature, Tensor):
            temperature = temperature.detach().to(self.negatives).reshape(-1, 1)
        return temperature * self.negatives.detach()

    def by_sample(self, values: Tensor) -> Tensor:
        """Return the largest of (A, K) values over the views of each sample."""
        if self.views == 1:
            return values
        of_views = values[:, : values.shape[1] - self.further].unflatten(-1, (self.views, -1))
        return torch.cat((of_views.amax(1), values[:, values.shape[1] - self.further :]), dim=1)

    def by_column(self, values: Tensor) -> Tensor:
        """Return (A, K) values from those of samples; the views of a sample share its value."""
        samples = values.shape[1] - self.further
        return torch.cat((values[:, :samples].repeat(1, self.views), values[:, samples:]), dim=1)

    def eta(self, default: float | Tensor | None) -> float | Tensor:
        """Return η: that of the anchors, else the estimator's own; a float, or a tensor that
        broadcasts to (A,).

        Raises:
            ValueError: if neither is set, or η is outside [0, 1) or does not have one value per
                anchor.
        """
        eta = default
        if self.class_probability is not None:
            eta = checked_class_probability(self.class_probability)
        if eta is None:
            raise ValueError(
                "class_probability is missing; pass it to the estimator or to each call."
            )
        if not isinstance(eta, Tensor):
            return eta
        if eta.dim() > 0:
            checked_shape("class_probability", eta, self.negatives.shape[:1])
        return eta.to(dtype=self.negatives.dtype, device=self.negatives.device)

    def required(self, name: str) -> Tensor:
        """Return a fact without its gradient.

        Raises:
            ValueError: if it is missing.
        """
        value = getattr(self, name)
        if value is None:
            raise ValueError(f"{PUBLIC.get(name, name)} is missing; the estimator needs it.")
        return value.detach()

    def in_scope(self, scope: str) -> Tensor:
        """Return (A, K) bool: the columns that a correction looks at: all, the anchor's hard
        negatives (``hard``), or all but these (``in_batch``).
        """
        is_hard = self.hard
        if is_hard is None:
            is_hard = torch.zeros_like(self.negatives, dtype=torch.bool)
        return {"all": is_hard | True, "in_batch": ~is_hard, "hard": is_hard}[scope]


# names of facts in the calls of losses and estimators, where they differ
PUBLIC = {"threshold": "positive_similarity", "log_probability": "sampling_probability"}


def mass_without(
    mass: Callable[[Anchors], NegativeMass], anchors: Anchors, left_out: Tensor
) -> NegativeMass:
    """Return the mass of the other columns; an anchor without any has log mass −∞ and no gradient,
    and keeps its average.

    Args:
        mass: :meth:`Estimator.mass`, or another function of anchors.
        anchors: the anchors.
        left_out: (A, K) bool, which columns are not negatives.
    """
    kept = ~(left_out | anchors.negatives.isneginf())
    count = kept.sum(-1)
    none = count == 0
    # Logits of 0 keep the estimate of an anchor without negatives finite; it is replaced below.
    usable = anchors.negatives.masked_fill(~kept, -math.inf).masked_fill(none[:, None], 0)
    found = mass(replace(anchors, negatives=usable, count=count.clamp(min=1)))
    if found.log_average is not None:
        stored = anchors.required("log_average").to(found.log_average.dtype)
        found = found._replace(log_average=torch.where(none, stored, found.log_average))
    return found._replace(
        log=found.log.masked_fill(none, -math.inf), at_bound=found.at_bound & ~none
    )
