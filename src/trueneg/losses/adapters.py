"""Adapters that give these losses the call signatures of other libraries.

lightly needs no adapter: its losses take two views, as does
:class:`trueneg.losses.ContrastiveLoss`. That of sentence-transformers stands in
:mod:`trueneg.losses.ranking`.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.losses.anchors import Anchors, mass_without
from trueneg.losses.base import Estimator, checked_estimator
from trueneg.losses.checks import check_tensors, checked_positive, checked_shape, is_readable
from trueneg.losses.cross_modal import CrossModalLoss, Pair
from trueneg.losses.execution import outside_autocast, single_precision, unit_length
from trueneg.losses.facts import SampleFacts
from trueneg.losses.log_space import MaskedLogSumExp
from trueneg.losses.ranking import FactsCollator, RankingLoss

__all__ = ["FactsCollator", "LabelledLoss", "OpenClipLoss", "RankingLoss"]


def _check_unit_length(name: str, features: Tensor) -> None:
    """Check that features are unit vectors, up to rounding in bfloat16; features on an accelerator
    are not checked.

    Raises:
        ValueError: if a vector's length differs from 1 by more than 2 %, or is NaN.
    """
    if not is_readable(features):
        return
    lengths = features.detach().float().norm(dim=-1)
    wrong = ~((lengths - 1).abs() <= 0.02)
    if wrong.any():
        problem = (
            f"{int(wrong.sum())} of {lengths.numel()} vectors do not have length 1 (the first:"
            f" {lengths[wrong][0]:.3g})"
        )
        raise ValueError(
            f"{name}: {problem}. Normalise them with torch.nn.functional.normalize(..., dim=-1)."
        )


class OpenClipLoss(CrossModalLoss):
    """Drop-in replacement for OpenCLIP's ``ClipLoss`` and, with ``Sigmoid``, ``SigLipLoss``; equal
    to the first with ``Uncorrected()``.

    The constructor takes the same arguments as :class:`CrossModalLoss`; ``gather_distributed`` is
    equivalent to setting both ``local_loss`` and ``gather_with_grad``.

    Example:
        >>> import torch
        >>> from trueneg.losses import Debiased
        >>> loss = OpenClipLoss(Debiased(0.05))
        >>> features = torch.nn.functional.normalize(torch.randn(8, 16), dim=-1)
        >>> sorted(loss(features, features, logit_scale=torch.tensor(14.0), output_dict=True))
        ['contrastive_loss']
    """

    def forward(  # type: ignore[override]  # the signature of OpenCLIP's loss
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor,
        logit_bias: Tensor | None = None,
        output_dict: bool = False,
        class_probability: float | Tensor | None = None,
        *,
        labels: Tensor | None = None,
        same_class: Tensor | tuple[Tensor, Tensor] | None = None,
        negative_similarity: Tensor | tuple[Tensor, Tensor] | None = None,
        positive_similarity: Tensor | None = None,
        exclude: Tensor | tuple[Tensor, Tensor] | None = None,
        targets: Tensor | tuple[Tensor, Tensor] | None = None,
        same_query: Tensor | None = None,
        hard_negatives: Tensor | None = None,
        queue: Tensor | Pair | None = None,
        sampling_probability: Tensor | None = None,
        index: Tensor | None = None,
        unused: str = "error",
    ) -> Tensor | dict[str, Tensor]:
        """Return the loss, or ``{"contrastive_loss": loss}``.

        Args:
            image_features: (B, D) normalised image features, as returned by OpenCLIP's models.
            text_features: (B, D) normalised text features.
            logit_scale: scalar tensor.
            logit_bias: scalar tensor; the bias of ``Sigmoid`` in place of its own. With other
                estimators, it has no effect: a constant added to every logit cancels in a softmax.
            output_dict: whether to return a dictionary.
            class_probability: η, a single number or one value per pair, shape (B,). For this and
                the following, see :meth:`CrossModalLoss.of_features`.
            labels: classes.
            same_class: whether an image has the class of a text.
            negative_similarity: known similarity between samples.
            positive_similarity: known similarity to the positives.
            exclude: which columns are not negatives.
            targets: soft targets.
            same_query: numbers of the queries.
            hard_negatives: further images.
            queue: past features.
            sampling_probability: of each sample.
            index: numbers of the pairs.
            unused: ``"error"`` or ``"ignore"``.

        Raises:
            ValueError: if there are not as many images as texts, features are not normalised
                (features on an accelerator are not checked), or see
                :meth:`CrossModalLoss.of_features`.
        """
        check_tensors(image_features=image_features, text_features=text_features)
        if len(image_features) != len(text_features):
            counts = f"{len(image_features)} images and {len(text_features)} texts"
            raise ValueError(
                f"image_features and text_features have {counts}; expected as many of each."
            )
        _check_unit_length("image_features", image_features)
        _check_unit_length("text_features", text_features)
        terms = self.of_features(
            text_features,
            image_features,
            logit_scale,
            class_probability=class_probability,
            labels=labels,
            same_class=same_class,
            negative_similarity=negative_similarity,
            positive_similarity=positive_similarity,
            exclude=exclude,
            targets=targets,
            same_query=same_query,
            hard_negatives=hard_negatives,
            queue=queue,
            sampling_probability=sampling_probability,
            index=index,
            logit_bias=logit_bias,
            unused=unused,
        )
        return {"contrastive_loss": terms.loss} if output_dict else terms.loss


class LabelledLoss(nn.Module):
    r"""A loss of embeddings and labels, as pytorch-metric-learning calls it; equal to its
    ``NTXentLoss`` with ``Uncorrected()``.

    .. math:: L = \frac{1}{|P|} \sum_{(a, p) \in P} -\log \frac{e^p}{e^p + N g_a}

    P are the pairs of different samples with the same label, and N·g is the mass of an anchor's
    negatives, the samples with other labels; estimators that average draws from the anchor's class
    take all of its positives. A miner can choose both, and a pair that it lists twice counts twice.
    Inside of ``SelfSupervisedLoss``, where the two views of a sample have its number as label, this
    is :class:`~trueneg.losses.ContrastiveLoss`; inside of ``CrossBatchMemory``, the memory holds
    further samples. A label below 0 is unknown: the sample has no positive, and is a negative of
    all others, also where a miner takes the unknown ones for a class. Both wrappers accept a loss
    by the name of its class only, so derive one: ``class NTXentLoss(LabelledLoss): pass``.
    Estimators that need labels, similarities or the numbers of samples cannot be used: here, labels
    say what is a positive.

    Args:
        estimator: estimator of the true-negative mass.
        temperature: t > 0.

    Attributes:
        share_at_bound: see :class:`~trueneg.losses.ContrastiveLoss`.

    Raises:
        ValueError: if the estimator needs a fact that this call does not have, or the temperature
            is not positive.

    Example:
        >>> from trueneg.losses import Debiased
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> round(LabelledLoss(Debiased(0.1), temperature=1.0)(torch.eye(4), labels).item(), 3)
        1.099
    """

    def __init__(self, estimator: Estimator, temperature: float = 0.1):
        super().__init__()
        checked = checked_estimator(estimator)
        if not isinstance(checked, Estimator) or any(
            getattr(checked, name)
            for name in (
                "needs_labels",
                "needs_similarity",
                "needs_probability",
                "keeps_average",
                "keeps_threshold",
            )
        ):
            raise ValueError(
                f"{estimator} needs more than embeddings and labels; expected an estimator such as"
                " Debiased, HardNegative or Bayesian, or another loss, such as ContrastiveLoss."
            )
        self.estimator = checked
        self.temperature = checked_positive("temperature", temperature)
        self.share_at_bound = torch.tensor(math.nan)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: tuple[Tensor, ...] | None = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        *,
        class_probability: float | Tensor | None = None,
        unused: str = "error",
    ) -> Tensor:
        """Return the scalar loss; 0 if there are no positive pairs.

        Args:
            embeddings: (B, D) embeddings; normalised by this method.
            labels: (B,) labels; None: not needed, because ``indices_tuple`` is given.
            indices_tuple: anchors, positives, anchors and negatives, (P,), (P,), (N,) and (N,), or
                triplets of anchors, positives and negatives, (T,) each, as a miner returns them;
                None: all pairs of equal and of different labels.
            ref_emb: (R, D) samples with which to compare; None: the embeddings.
            ref_labels: (R,) their labels. If this is the tensor ``labels`` itself, the samples are
                those of the embeddings, in other views: none is compared with itself.
            class_probability: η, a single number or one value per embedding, (B,).
            unused: ``"error"`` or ``"ignore"``, see :meth:`ContrastiveLoss.terms`.

        Raises:
            ValueError: if a shape is wrong, neither labels nor pairs are given, or the estimator
                does not use η.
        """
        check_tensors(embeddings=embeddings, ref_emb=ref_emb)
        SampleFacts(class_probability).refuse_unused(self.estimator, None, unused)
        itself = ref_emb is None or ref_labels is labels
        keys = embeddings if ref_emb is None else ref_emb
        with outside_autocast(embeddings.device):
            anchors, keys = map(unit_length, single_precision(embeddings, keys))
            logits = anchors @ keys.mT / self.temperature
            if indices_tuple is not None:
                (positive, is_positive), (negative, is_negative) = (
                    _listed(logits, *pairs) for pairs in _pairs(indices_tuple, labels)
                )
            else:
                positive = negative = logits
                of_keys = labels if ref_emb is None else ref_labels
                is_positive, is_negative = _by_label(logits, labels, of_keys, itself)
            pairs = is_positive.sum(1)
            draws = MaskedLogSumExp.apply(positive, ~is_positive | (pairs == 0)[:, None])
            mean = torch.where(pairs > 0, draws - pairs.clamp(min=1).to(draws).log(), 0)
            seen = Anchors(
                mean,
                negative,
                count=negative.shape[1],
                temperature=self.temperature,
                class_probability=class_probability,
            )
            mass = mass_without(self.estimator.estimate, seen, ~is_negative)
            self.share_at_bound = mass.at_bound.float().mean()
            each = functional.softplus(mass.log[:, None] - positive).masked_fill(~is_positive, 0)
            return each.sum() / pairs.sum().clamp(min=1)


def _by_label(
    logits: Tensor, labels: Tensor | None, of_keys: Tensor | None, itself: bool
) -> tuple[Tensor, Tensor]:
    """Return (B, R) bool, which pairs are positives and which negatives, from their labels.

    Args:
        logits: (B, R) logits.
        labels: (B,) labels.
        of_keys: (R,) labels of the samples with which to compare.
        itself: whether these are the same samples.
    """
    if labels is None:
        raise ValueError("labels is missing; pass labels, or the pairs of a miner (indices_tuple).")
    labels = checked_shape("labels", labels, logits.shape[:1]).to(logits.device)
    of_keys = checked_shape("ref_labels", of_keys, logits.shape[1:]).to(logits.device)
    same = (labels[:, None] == of_keys) & (labels >= 0)[:, None]
    others = torch.ones_like(same)
    if itself:
        others.fill_diagonal_(False)
    return same & others, ~same & others


def _pairs(
    indices: tuple[Tensor, ...], labels: Tensor | None
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the anchors and positives, and the anchors and negatives, of a miner's pairs or
    triplets. To a miner, unknown labels are a class: its positives are negatives.
    """
    lengths = [len(each) for each in indices]
    if len(indices) == 3:
        anchors, positives, negatives = indices
        indices = anchors, positives, anchors, negatives
    if len(indices) != 4 or any(
        len(rows) != len(columns) for rows, columns in (indices[:2], indices[2:])
    ):
        raise ValueError(
            f"indices_tuple has parts of lengths {lengths}; expected anchors, positives, anchors"
            " and negatives, or triplets."
        )
    if labels is None:
        return indices[:2], indices[2:]
    is_known = labels.to(indices[0].device)[indices[0]] >= 0
    further = [each[~is_known] for each in indices[:2]]
    return (
        tuple(each[is_known] for each in indices[:2]),
        tuple(map(torch.cat, zip(indices[2:], further, strict=True))),
    )


def _listed(logits: Tensor, rows: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Return the logits of the pairs that are listed for each row, (B, L), as often as they are
    listed, and which of the L places hold one.
    """
    rows, order = rows.to(logits.device).sort(stable=True)
    numbers = rows.bincount(minlength=len(logits))
    places = torch.arange(len(rows), device=rows.device) - (numbers.cumsum(0) - numbers)[rows]
    is_pair = torch.arange(max(int(numbers.max()), 1), device=rows.device) < numbers[:, None]
    listed = torch.zeros_like(is_pair, dtype=torch.int64)
    listed[rows, places] = columns.to(logits.device)[order]
    return logits.gather(1, listed), is_pair
