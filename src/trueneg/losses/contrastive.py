"""Contrastive losses over views of the same samples (the SimCLR setting) with any estimator of the
true-negative mass.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trueneg.losses.base import AnchorCriterion
from trueneg.losses.checks import check_tensors, checked_positive, checked_shape
from trueneg.losses.estimator_loss import ContrastiveTerms, EstimatorLoss, scalar
from trueneg.losses.estimators.uncorrected import Uncorrected
from trueneg.losses.execution import gathered, outside_autocast, single_precision, unit_length
from trueneg.losses.facts import SampleFacts
from trueneg.losses.further import FurtherKeys
from trueneg.losses.layout import Layout
from trueneg.losses.targets import Rule, SameClass


class ContrastiveLoss(EstimatorLoss):
    r"""Contrastive loss over V views of B samples; each view is an anchor, and the sample's other
    views are its positives.

    .. math:: L = \frac{1}{A} \sum_a \frac{1}{V - 1} \sum_p -\log \frac{e^p}{e^p + N g_a}

    with A = V·B anchors, logits p, u = cosine / temperature, N = V(B − 1) negatives (all views of
    the other samples), and log(N·g) from the estimator, bounded below by g ≥ e^(−1/temperature),
    the smallest possible value of e^u. Each of several positives stands alone in its softmax; those
    that average draws from the anchor's class, such as DCL, take all of them. The loss is computed
    in float32 under autocast, and in float64 for float64 embeddings. A batch of one has no
    negatives: its loss is 0.

    With ``targets`` or ``decoupled``, see :func:`trueneg.losses.anchor_loss.anchor_loss`.

    Args:
        estimator: estimator of the true-negative mass, or :class:`~trueneg.losses.Sigmoid`.
        temperature: t > 0.
        decoupled: leave the positive out of the denominator (decoupled contrastive learning, Yeh et
            al., 2022).
        chunk_size: number of anchors to process at a time, for batches whose logits do not fit in
            memory; chunks are recomputed in the backward pass. None: all at once.
        gather_distributed: use the samples of all processes as negatives (``torch.distributed``);
            every process must have the same B. The loss is the mean over this process's anchors, so
            averaging gradients with DistributedDataParallel gives the gradient of the loss over the
            whole batch.
        target_rule: computes targets from the known similarity or labels for calls that pass none
            (:mod:`trueneg.losses.targets`).
        negatives: ``"all"``; ``"hard"``, only the anchor's hard negatives; or ``"in_batch"``, all
            but these.
        reduction: ``"mean"``, or ``"none"`` for the loss of each anchor, (A,), view by view.

    Attributes:
        share_at_bound: scalar tensor, the share of the latest call's anchors that are at the
            estimator's lower bound; NaN before the first call.
        share_of_hard_removed: scalar tensor, the share of the latest call's hard negatives that the
            estimator left out; NaN if there were none.

    Raises:
        ValueError: if ``estimator`` is not an estimator, the temperature or the chunk size is not
            positive, or another value is unknown.

    Example:
        >>> from trueneg.losses import ContrastiveLoss, Debiased
        >>> loss = ContrastiveLoss(Debiased(0.1), temperature=0.5)
        >>> z1, z2 = torch.eye(4), torch.eye(4)  # views agree, samples are orthogonal
        >>> round(loss(z1, z2).item(), 3)  # log(1 + (6·e^0 − 0.1·6·e^2) / 0.9 / e^2)
        0.212
    """

    def __init__(
        self,
        estimator: AnchorCriterion,
        temperature: float = 0.5,
        *,
        decoupled: bool = False,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
        target_rule: Rule | None = None,
        negatives: str = "all",
        reduction: str = "mean",
    ):
        options = decoupled, chunk_size, gather_distributed, target_rule, negatives, reduction
        super().__init__(estimator, *options)
        self.temperature = checked_positive("temperature", temperature)

    def terms(
        self,
        z1: Tensor | Sequence[Tensor],
        z2: Tensor | None = None,
        *,
        class_probability: float | Tensor | None = None,
        extra_positives: Tensor | None = None,
        labels: Tensor | None = None,
        same_class: Tensor | None = None,
        negative_similarity: Tensor | tuple[Tensor, ...] | None = None,
        positive_similarity: Tensor | None = None,
        exclude: Tensor | None = None,
        targets: Tensor | None = None,
        same_query: Tensor | None = None,
        hard_negatives: Tensor | None = None,
        queue: Tensor | None = None,
        sampling_probability: Tensor | None = None,
        index: Tensor | None = None,
        unused: str = "error",
    ) -> ContrastiveTerms:
        """Return the loss and the terms it is computed from, in one pass without synchronizing the
        device. ``loss(…)`` takes the same arguments, and returns the loss alone.

        Anchors are ordered as view 1 of samples 0 … B−1, then view 2, and so on. Columns have the
        same order, for the G samples of all processes, then come hard negatives and the queue; S is
        the number of samples, hard negatives and queued keys, and K that of columns.

        Args:
            z1: (B, D) embeddings of the first views; normalised by this method, as all embeddings.
                Or all V views, as a list or as (V, B, D).
            z2: (B, D) embeddings of the second views; None if ``z1`` contains all views.
            class_probability: η, a single number or one value per sample, shape (B,); overrides the
                estimator's own.
            extra_positives: (B, M, D) further draws from each sample's class, used by the estimator
                only; the numerator keeps the other views.
            labels: (B,) class of each sample, for estimators that need labels; below 0: unknown.
                Those of hard negatives and the queue may follow, and are unknown otherwise.
            same_class: (B, S) bool, whether sample j has the class of sample i; in place of
                ``labels``.
            negative_similarity: known similarity between samples, for estimators that need it: (B,
                B), whose transpose is used for the other views; V of these, one for each view of
                the anchors; or (V·B, K) over all columns. With several processes or further
                negatives, there is one column for each sample: (B, S), assumed symmetric.
            positive_similarity: (B,) or (V·B,) known similarity of each anchor and its positive,
                for estimators that need it.
            exclude: (B, S) or (V·B, K) bool, which samples or columns are not negatives of an
                anchor; N counts only the others.
            targets: (B, S); each row sums to 1. T_ii is the weight of the positive; T_ij is divided
                equally between the views of sample j. With V·B rows, each view of a sample has its
                own targets. They get no gradient. None: the positive has all the weight.
            same_query: (B,) integers; samples with equal ones of at least 0 are right answers to
                the same query, so that they are not negatives of each other. Those of hard
                negatives and the queue may follow.
            hard_negatives: (H, D) further negatives of all anchors; or (B, n, D), n of each sample,
                which are negatives of the other samples, too.
            queue: (Q, D) past keys, further negatives of all anchors; the same in all processes.
            sampling_probability: (S,) probability with which each sample is drawn, for
                :class:`~trueneg.losses.LogQ`.
            index: (B,) number of each sample among all training samples, for estimators that
                remember samples.
            unused: ``"error"``: a fact that the estimator does not use is refused; ``"ignore"``: it
                is accepted, and its shape is checked.

        Raises:
            ValueError: if shapes do not match, an input required by the estimator is missing, or a
                fact is not used.
        """
        views = stacked_views(z1, z2)
        facts = SampleFacts(
            class_probability,
            labels,
            same_class,
            negative_similarity,
            positive_similarity,
            exclude,
            targets,
            same_query,
            sampling_probability,
            index,
            extra_positives,
        )
        facts.refuse_unused(self.estimator, self.target_rule, unused)
        with outside_autocast(views.device):
            units = unit_length(single_precision(views)[0])
            return self.finished(self._of_views(units, facts, hard_negatives, queue), index)

    forward = scalar(terms)

    def _of_views(
        self,
        units: Tensor,
        facts: SampleFacts,
        hard_negatives: Tensor | None,
        queue: Tensor | None,
    ) -> ContrastiveTerms:
        """Compute the terms from (V, B, D) unit vectors."""
        number, count, _ = units.shape
        everyone, rank = gathered(units, self.gather_distributed)
        samples = everyone.transpose(0, 1).flatten(0, 2)  # view 1 of all samples, then view 2
        further = FurtherKeys(hard_negatives, queue, count, self.gather_distributed, units)
        layout = Layout(
            count,
            len(samples) // number,
            further.hard,
            further.queued,
            views=number,
            offset=rank * count,
            device=units.device,
            dtype=units.dtype,
        )
        views = units.flatten(0, 1)
        anchors = views / self.temperature
        others = range(1, number)
        positive = [torch.linalg.vecdot(anchors, views.roll(k * count, 0)) for k in others]
        positive += _of_draws(facts.extra_positives, anchors, count)
        facts = replace(
            facts,
            similarity=_by_anchor(facts.similarity, layout),
            positive_similarity=_of_each_view(facts.positive_similarity, layout),
            owners=further.owners,
        )
        return self.of_anchors(
            layout,
            positive[0] if len(positive) == 1 else torch.stack(positive, dim=1),
            anchors,
            further.after(samples),
            self.temperature,
            facts,
            partners=number - 1,
        )


class SupConLoss(ContrastiveLoss):
    r"""Supervised contrastive loss: the positives of an anchor are all views of its class.

    .. math::

        L = \frac{1}{A} \sum_a \frac{-1}{|P_a|} \sum_{p \in P_a}
            \log \frac{e^p}{\sum_{k \ne a} e^{u_k}}

    L_out of Khosla et al. (2020): :class:`ContrastiveLoss` with
    :class:`~trueneg.losses.Uncorrected` and targets that are uniform over the views of the anchor's
    class. Pass ``labels`` to each call; a sample whose label is below 0 has its own other view as
    the only positive.

    Args:
        temperature: t > 0.
        options: those of :class:`ContrastiveLoss`.

    Example:
        >>> from trueneg.losses import SupConLoss
        >>> labels = torch.tensor([0, 0, 1, -1])
        >>> round(SupConLoss(temperature=1.0)(torch.eye(4), torch.eye(4), labels=labels).item(), 2)
        1.5
    """

    def __init__(self, temperature: float = 0.1, **options: Any):
        super().__init__(Uncorrected(), temperature, target_rule=SameClass(), **options)


def stacked_views(z1: Tensor | Sequence[Tensor], z2: Tensor | None) -> Tensor:
    """Return (V, B, D) embeddings from two views, or from all of them.

    Raises:
        ValueError: if the shapes differ, or there are fewer than two views.
    """
    views: list[Any]
    if z2 is not None:
        check_tensors(z1=z1, z2=z2)
        views = [z1, z2]
    elif isinstance(z1, Tensor) and z1.dim() == 3:
        views = list(z1)
    elif isinstance(z1, (list, tuple)):
        check_tensors(**{f"view {number}": view for number, view in enumerate(z1, 1)})
        views = list(z1)
    else:
        raise ValueError("z2 is missing; expected the second views, or all views as (V, B, D).")
    shapes = [tuple(view.shape) for view in views]
    if len(views) < 2 or len(shapes[0]) != 2 or len(set(shapes)) > 1:
        raise ValueError(
            f"z1 and z2 have shapes {' and '.join(map(str, shapes))}; expected two or more views,"
            " all of shape (B, D)."
        )
    return torch.stack(views)


def _of_draws(draws: Tensor | None, anchors: Tensor, count: int) -> list[Tensor]:
    """Return the logits of further draws from each sample's class, (A,) each."""
    check_tensors(extra_positives=draws)
    if draws is None:
        return []
    checked_shape("extra_positives", draws, (count, draws.shape[1], anchors.shape[1]))
    units = unit_length(draws.to(anchors.dtype)).repeat(len(anchors) // count, 1, 1)
    return list(torch.linalg.vecdot(anchors[:, None], units).unbind(1))


def _of_each_view(values: Tensor | None, layout: Layout) -> Tensor | None:
    """Return (A,) values from (A,) or (B,) ones."""
    if isinstance(values, Tensor) and values.shape == (layout.count,):
        return values.repeat(layout.views)
    check_tensors(positive_similarity=values)
    return values


def _by_anchor(similarity: Tensor | Sequence[Tensor] | None, layout: Layout) -> Tensor | None:
    """Return a known similarity with one row per anchor, (A, S) or (A, K)."""
    if similarity is None:
        return None
    count = layout.count
    of_samples = count, layout.candidates
    if isinstance(similarity, Tensor):
        if similarity.shape == (layout.anchors, layout.columns):
            return similarity
        first = checked_shape("negative_similarity", similarity, of_samples)
        if layout.candidates > count:  # symmetric among several processes
            return first.repeat(layout.views, 1)
        return torch.cat((first, first.mT.repeat(layout.views - 1, 1)))
    is_sequence = isinstance(similarity, tuple | list)
    if not is_sequence or len(similarity) != layout.views:
        found = (
            f"has {len(similarity)} parts" if is_sequence else f"is a {type(similarity).__name__}"
        )
        raise ValueError(
            f"negative_similarity {found}; expected a tensor, or one for each of"
            f" {layout.views} views."
        )
    for each in similarity:
        checked_shape("negative_similarity", each, of_samples)
    return torch.cat(tuple(similarity))
