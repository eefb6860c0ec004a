"""Contrastive losses between two modalities (the CLIP setting) with any estimator of the true-negative mass."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from trueneg.losses.base import Estimator
from trueneg.losses.estimators import Uncorrected
from trueneg.losses.execution import checked_chunk_size, gathered, outside_autocast, single_precision
from trueneg.losses.terms import ContrastiveTerms, contrastive_terms, joined

DIRECTIONS = {"text": ("text",), "image": ("image",), "both": ("text", "image")}


class CrossModalLoss(nn.Module):
    r"""Contrastive loss over B text–image pairs; an anchor's positive is its partner, and its negatives are the others' partners.

    .. math:: L = \frac{1}{A} \sum_a -\log \frac{e^{p_a}}{e^{p_a} + N g_a}

    with logits p, u = logit scale × similarity, N = B − 1 negatives, and log(N·g) from the estimator, bounded
    below by g ≥ e^(−logit scale). The loss is computed in float32 under autocast, and in float64 for float64 input.

    Args:
        estimator: estimator of the true-negative mass.
        directions: ``"text"``: texts are the anchors, images the negatives (Sample-Specific Debiasing, 2023);
            ``"image"``: the reverse; ``"both"``: the mean of the two (CLIP).
        bound_gradient: let gradients flow through the bound to a learned logit scale. Off by default: the bound is
            a safeguard, and every anchor at the bound would push the scale up.
        chunk_size: number of anchors to process at a time; chunks are recomputed in the backward pass. It saves
            most memory with :meth:`of_features`, which then never stores all B² similarities. None: all at once.
        gather_distributed: use the samples of all processes as negatives (:meth:`of_features` only); the
            loss is the mean over this process's anchors.

    Raises:
        ValueError: if ``directions`` is unknown or the chunk size is not positive.

    Example:
        >>> from trueneg.losses import CrossModalLoss, Debiased
        >>> loss = CrossModalLoss(Debiased(0.1), directions="text")
        >>> round(loss(torch.eye(8), logit_scale=1.0).item(), 3)     # log(1 + (7 − 0.1·7·e) / 0.9 / e)
        1.126
    """

    def __init__(
        self,
        estimator: Estimator,
        directions: str = "both",
        *,
        bound_gradient: bool = False,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
    ):
        super().__init__()
        if directions not in DIRECTIONS:
            raise ValueError(f"directions is {directions!r}; expected one of {', '.join(DIRECTIONS)}.")
        self.estimator = estimator
        self.directions = directions
        self.bound_gradient = bound_gradient
        self.chunk_size = checked_chunk_size(chunk_size)
        self.gather_distributed = gather_distributed

    def forward(
        self, similarity, logit_scale, class_probability=None, negative_similarity=None, labels=None, *, same_class=None
    ) -> Tensor:
        """Return the scalar loss; takes the arguments of :meth:`terms`."""
        return self.terms(similarity, logit_scale, class_probability, negative_similarity, labels, same_class=same_class).loss

    def terms(
        self,
        similarity: Tensor,
        logit_scale: float | Tensor,
        class_probability: float | Tensor | None = None,
        negative_similarity: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        same_class: Tensor | None = None,
    ) -> ContrastiveTerms:
        """Return the loss and the terms it is computed from; text anchors come first, then image anchors.

        Args:
            similarity: (B, B) unscaled s(text_i, image_j) in [−1, 1].
            logit_scale: factor applied to the similarities; a number or a scalar tensor.
            class_probability: η, a single number or one value per pair, shape (B,); overrides the estimator's own.
            negative_similarity: (B, B) known similarity between pairs i and j (symmetric), for estimators
                that need it.
            labels: (B,) class of each pair, for estimators that need labels.
            same_class: (B, B) bool, whether image j has the class of text i; replaces ``labels`` if texts and images
                have different classes. Its transpose is used for image anchors.

        Raises:
            ValueError: if shapes do not match, or an input required by the estimator is missing.
        """
        if similarity.dim() != 2 or similarity.shape[0] != similarity.shape[1]:
            raise ValueError(f"similarity has shape {tuple(similarity.shape)}; expected (B, B).")
        if self.gather_distributed:
            raise ValueError("similarity contains the samples of this process only; call of_features to use gather_distributed.")
        known = {"class_probability": class_probability, "negative_similarity": negative_similarity, "labels": labels}
        with outside_autocast(similarity.device):
            logits, floor = self._scaled(single_precision(similarity)[0], logit_scale)
            return self._of_logits(logits.diagonal().clone(), logits, floor, **known, same_class=same_class)

    def of_features(
        self,
        text_features: Tensor,
        image_features: Tensor,
        logit_scale: float | Tensor,
        class_probability: float | Tensor | None = None,
        negative_similarity: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> ContrastiveTerms:
        """Return the same as :meth:`terms`, computing similarities as inner products of features.

        Args:
            text_features: (B, D) text features, not normalised by this method; pass unit vectors for cosine similarity.
            image_features: (B, D) image features, not normalised by this method either.
            logit_scale: see :meth:`terms`.
            class_probability: see :meth:`terms`.
            negative_similarity: see :meth:`terms`; with several processes (B, G), with one column for each sample of
                all processes.
            labels: see :meth:`terms`.

        Raises:
            ValueError: if shapes do not match, or an input required by the estimator is missing.
        """
        if text_features.dim() != 2 or text_features.shape != image_features.shape:
            raise ValueError(
                f"text_features and image_features have shapes {tuple(text_features.shape)} and "
                f"{tuple(image_features.shape)}; expected both (B, D)."
            )
        known = {"class_probability": class_probability, "negative_similarity": negative_similarity, "labels": labels}
        with outside_autocast(text_features.device):
            text, image = single_precision(text_features, image_features)
            scaled, floor = self._scaled(text, logit_scale)
            positive = torch.linalg.vecdot(scaled, image)
            if self.chunk_size is None and not self.gather_distributed:
                return self._of_logits(positive, scaled @ image.mT, floor, **known)  # one product for both directions
            pairs, rank = gathered(torch.stack((scaled, image)), self.gather_distributed)
            texts, images = pairs.transpose(0, 1).flatten(1, 2)
            return self._joined(positive, {"text": (scaled, images), "image": (image, texts)}, floor, **known, rank=rank)

    def _of_logits(self, positive: Tensor, logits: Tensor, floor: float | Tensor, **known: Any) -> ContrastiveTerms:
        """Compute the terms from the (B, B) text–image logits, which are modified in place."""
        logits.fill_diagonal_(-math.inf)
        return self._joined(positive, {"text": (logits, None), "image": (logits.mT.contiguous(), None)}, floor, **known)

    def _joined(self, positive: Tensor, anchors: Mapping[str, Any], floor: float | Tensor, **known: Any) -> ContrastiveTerms:
        """Compute the terms from each direction's anchors and keys, and from the positives, which both directions share."""
        parts = []
        for direction in DIRECTIONS[self.directions]:
            if direction == "image" and known.get("same_class") is not None:
                known["same_class"] = known["same_class"].mT
            rows, keys = anchors[direction]
            parts.append(contrastive_terms(self, positive, rows, keys, floor, views=1, **known))
        return joined(parts)

    def _scaled(self, values: Tensor, logit_scale: float | Tensor) -> tuple[Tensor, float | Tensor]:
        """Return the values multiplied by the logit scale, and the log of the lower bound of g."""
        if not isinstance(logit_scale, Tensor):
            return values * logit_scale, -logit_scale
        scale = logit_scale.reshape(())
        return values * scale, -scale if self.bound_gradient else -scale.detach()


class LogitScale(nn.Module):
    """Learned logit scale (inverse temperature), limited to a maximum as in CLIP.

    The parameter is the logarithm of the scale. If it exceeds the maximum, the parameter itself is
    clamped, not its output, so that gradients can lower it again.

    Args:
        initial: initial scale.
        maximum: largest allowed scale.

    Raises:
        ValueError: unless 0 < initial ≤ maximum.

    Example:
        >>> round(LogitScale(initial=14.0)().item(), 3)
        14.0
    """

    def __init__(self, initial: float = 1 / 0.07, maximum: float = 100.0):
        super().__init__()
        if not 0 < initial <= maximum:
            raise ValueError(f"initial is {initial:g}; expected a positive number of at most {maximum:g}.")
        self.log_scale = nn.Parameter(torch.tensor(math.log(initial)))
        self.log_maximum = math.log(maximum)

    def forward(self) -> Tensor:
        """Return the scale as a scalar tensor."""
        with torch.no_grad():
            self.log_scale.clamp_(max=self.log_maximum)
        return self.log_scale.exp()


class SymmetricInfoNCE(CrossModalLoss):
    r"""InfoNCE in both directions with a learned logit scale: CLIP's loss (Radford et al., 2021).

    .. math:: L = \frac{1}{2B} \sum_i \Bigl(-\log \frac{e^{\gamma c_{ii}}}{\sum_j e^{\gamma c_{ij}}}
              -\log \frac{e^{\gamma c_{ii}}}{\sum_j e^{\gamma c_{ji}}}\Bigr)

    Args:
        initial_logit_scale: initial value of γ.
        maximum_logit_scale: largest allowed value of γ.
        chunk_size: see :class:`CrossModalLoss`.
        gather_distributed: see :class:`CrossModalLoss`.

    Raises:
        ValueError: unless 0 < initial ≤ maximum, or if the chunk size is not positive.

    Example:
        >>> loss = SymmetricInfoNCE(initial_logit_scale=14.0)
        >>> round(loss(torch.eye(8), torch.eye(8)).item(), 6)        # log(1 + 7·e^−14)
        6e-06
        >>> [name for name, _ in loss.named_parameters()]
        ['logit_scale.log_scale']
    """

    def __init__(
        self,
        initial_logit_scale: float = 1 / 0.07,
        maximum_logit_scale: float = 100.0,
        *,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
    ):
        super().__init__(Uncorrected(), chunk_size=chunk_size, gather_distributed=gather_distributed)
        self.logit_scale = LogitScale(initial_logit_scale, maximum_logit_scale)

    def forward(self, u: Tensor, v: Tensor) -> Tensor:  # type: ignore[override]  # the logit scale is a parameter
        """Return the scalar loss for (B, D) embeddings of the two modalities, which this method normalises."""
        with outside_autocast(u.device):
            u, v = (functional.normalize(each, dim=-1) for each in single_precision(u, v))
        return self.of_features(u, v, self.logit_scale()).loss
