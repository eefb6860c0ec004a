"""Base classes of what a loss computes of its anchors: estimators of the true-negative mass N·g."""

import math
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from trueneg.losses.anchor_loss import anchor_loss
from trueneg.losses.anchors import SCOPES, Anchors, NegativeMass, mass_without, unbounded
from trueneg.losses.checks import checked_choice, checked_number
from trueneg.losses.log_space import MaskedLogSumExp, log_sum_of, next_largest


class AnchorCriterion:
    """What a contrastive loss computes of its anchors: the estimators, and :class:`Sigmoid`.

    Attributes:
        name: its name in configurations and in :func:`trueneg.losses.build`.
        needs_labels: whether ``same_class`` is required; losses also take ``labels``.
        needs_similarity: whether ``similarity`` is required; losses call it
            ``negative_similarity``.
        needs_positive_similarity: whether ``threshold`` is required; losses call it
            ``positive_similarity``.
        needs_probability: whether ``log_probability`` is required; losses take
            ``sampling_probability``.
        keeps_average: whether it keeps a moving average of each sample's mass, so that losses need
            ``index``.
        keeps_threshold: whether it learns a threshold of each sample, so that losses need
            ``index``.
        uses_class_probability: whether η has an effect.
        uses_extra_positives: whether positives besides the anchor's own have an effect.
        marks: whether it marks individual negatives as false, so that they can be compared with the
            truth.
        compares_samples: whether ``similarity`` should be that of samples, and not that of their
            views.
        combines: whether soft targets and ``decoupled`` are possible; not if the loss is no
            softmax.
        pairwise: whether the loss is a sum over pairs, so that both directions of pairs have the
            same terms, :meth:`of_pairs`.
        scope: the columns that a correction looks at.
    """

    name: str
    needs_labels: bool = False
    needs_similarity: bool = False
    needs_positive_similarity: bool = False
    needs_probability: bool = False
    keeps_average: bool = False
    keeps_threshold: bool = False
    uses_class_probability: bool = False
    uses_extra_positives: bool = False
    marks: bool = False
    compares_samples: bool = False
    combines: bool = True
    pairwise: bool = False
    scope: str = "all"

    def losses(
        self,
        anchors: Anchors,
        left_out: Tensor | None = None,
        targets: tuple[Tensor, Tensor] | None = None,
        decoupled: bool = False,
    ) -> tuple[Tensor, NegativeMass]:
        """Return each anchor's loss, (A,), and the mass of its negatives.

        Args:
            anchors: the anchors.
            left_out: (A, K) bool, columns that are not negatives, but may have a target.
            targets: T_p (A,) and T_n (A, K), see :func:`~trueneg.losses.anchor_loss.anchor_loss`.
            decoupled: whether the positive is left out of the denominator.
        """
        raise NotImplementedError

    def of_pairs(
        self, anchors: Anchors, left_out: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return what a pairwise loss adds up: the terms of the own positives, (A,), those of the
        columns, (A, K), and which columns are further positives.
        """
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class Estimator(AnchorCriterion):
    """Base class for estimators of each anchor's true-negative mass; subclasses implement
    :meth:`mass`.

    Args:
        scope: the columns that the correction looks at: ``"all"``; ``"in_batch"``, all but the
            anchor's own hard negatives; or ``"hard"``, only these. The others are summed as they
            are.

    Raises:
        ValueError: if the scope is unknown.
    """

    scope: str = field(default="all", kw_only=True)

    def __post_init__(self):
        checked_choice("scope", self.scope, SCOPES)
        for each in fields(self):
            if each.type is float:
                checked_number(each.name, getattr(self, each.name))

    def __repr__(self) -> str:
        given = {
            each.name: value
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default or not each.kw_only
        }
        return f"{type(self).__name__}({', '.join(f'{key}={given[key]!r}' for key in given)})"

    def __call__(
        self,
        positive: Tensor,
        negatives: Tensor,
        class_probability: float | Tensor | None = None,
        *,
        temperature: float | Tensor | None = None,
        same_class: Tensor | None = None,
        similarity: Tensor | None = None,
        positive_similarity: Tensor | None = None,
        hard: Tensor | None = None,
        log_probability: Tensor | None = None,
        log_average: Tensor | None = None,
        valid: Tensor | None = None,
        views: int = 1,
    ) -> Tensor:
        """Return the log of the true-negative mass, shape (A,).

        Args:
            positive: the arguments are the fields of :class:`~trueneg.losses.anchors.Anchors`;
                ``positive_similarity`` is its ``threshold``.
            valid: (A, K) bool, marks the columns that are the anchor's negatives; the others are
                ignored. None: all columns.
        """
        anchors = Anchors(
            positive,
            negatives,
            temperature=temperature,
            class_probability=class_probability,
            same_class=same_class,
            similarity=similarity,
            threshold=positive_similarity,
            hard=hard,
            log_probability=log_probability,
            log_average=log_average,
            views=views,
        )
        if valid is None:
            return self.estimate(anchors).log
        return mass_without(self.estimate, anchors, ~valid).log

    def estimate(self, anchors: Anchors) -> NegativeMass:
        """Return the mass of the columns in scope, corrected, plus that of the others."""
        if self.scope == "all":
            return self.mass(anchors)
        inside = anchors.in_scope(self.scope)
        found = mass_without(self.mass, anchors, ~inside)
        log_mass = log_sum_of(found.log, MaskedLogSumExp.apply(anchors.negatives, inside))
        removed = None if found.removed is None else found.removed * inside
        return found._replace(log=log_mass, removed=removed)

    def mass(self, anchors: Anchors) -> NegativeMass:
        """Return the log of the true-negative mass, and whether it is at its bound."""
        raise NotImplementedError

    def losses(
        self,
        anchors: Anchors,
        left_out: Tensor | None = None,
        targets: tuple[Tensor, Tensor] | None = None,
        decoupled: bool = False,
    ) -> tuple[Tensor, NegativeMass]:
        if left_out is None:
            found = self.estimate(anchors)
        else:
            found = mass_without(self.estimate, anchors, left_out)
        logits = anchors.negatives
        return anchor_loss(found.log, anchors.own_positives, logits, targets, decoupled), found

    def mean(self, anchors: Anchors) -> Tensor:
        """Return g itself without a bound, shape (A,): the estimated mean of e^u over the true
        negatives.

        The result is not in log space, so it is negative where the estimate's log would be NaN.
        """
        return (self.mass(anchors).log - anchors.log_count).exp()


@dataclass(eq=False, repr=False)
class Selecting(Estimator):
    """Sum over the remaining negatives; subclasses implement :meth:`marked`. If none remain, loss
    and gradient are 0.

    Two placebos show whether it matters which negatives are left out, or only how many. The random
    one draws from torch's default RNG at each call.

    Args:
        shuffled: leave out the same number of negatives, but random ones.
        nearest: leave out the same number of negatives, but the true ones with the largest logits
            (fewer, if logits are equal); ``same_class`` is then required.

    Raises:
        ValueError: if shuffled and nearest are both set.
    """

    marks = True
    shuffled: bool = field(default=False, kw_only=True)
    nearest: bool = field(default=False, kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        if self.shuffled and self.nearest:
            raise ValueError("shuffled and nearest are both set; expected at most one of them.")
        self.needs_labels = self.needs_labels or self.nearest

    def marked(self, anchors: Anchors) -> Tensor:
        """Return (A, K) bool: which negatives to leave out."""
        raise NotImplementedError

    def mass(self, anchors: Anchors) -> NegativeMass:
        marked = self.marked(anchors)
        if self.shuffled or self.nearest:
            marked = self._placebo(marked, anchors)
        return unbounded(MaskedLogSumExp.apply(anchors.negatives, marked), marked)

    def _placebo(self, marked: Tensor, anchors: Anchors) -> Tensor:
        """Return as many other negatives."""
        order, valid = anchors.negatives.detach(), anchors.is_negative
        eligible = valid
        if self.nearest:
            eligible = valid & ~anchors.required("same_class")
        else:
            order = torch.rand(marked.shape, device=marked.device)
        order = order.masked_fill(~eligible, -math.inf)
        return order > next_largest(order, (marked & valid).sum(-1))


def checked_estimator(estimator: object) -> AnchorCriterion:
    """Return the estimator of a loss after checking that it is one.

    Raises:
        ValueError: if it is a name or a class.
    """
    if isinstance(estimator, AnchorCriterion):
        return estimator
    described = (
        f"the class {estimator.__name__}" if isinstance(estimator, type) else repr(estimator)
    )
    raise ValueError(
        f"estimator is {described}; expected an instance of an estimator, such as Uncorrected() or"
        " Debiased(0.1). trueneg.losses.build makes a loss from an estimator's name."
    )
