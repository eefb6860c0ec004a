"""Contrastive losses between two modalities (CLIP's setting) with any estimator of the true-negative mass."""

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
    r"""B pairs of a text and an image; an anchor's positive is its partner, its negatives the others' partners.

    .. math:: L = \frac{1}{A} \sum_a -\log \frac{e^{p_a}}{e^{p_a} + N g_a}

    with logits p, u = logit scale × similarity, N = B − 1 negatives, and log(N·g) from the estimator, bounded
    below by g ≥ e^(−logit scale). Computed in float32 under autocast, in float64 for float64 input.

    Args:
        estimator: how the mass of the true negatives is estimated.
        directions: ``"text"``: texts are the anchors, images the negatives (Sample-Specific Debiasing, 2023);
            ``"image"``: the reverse; ``"both"``: the mean of the two (CLIP).
        bound_gradient: let the bound carry gradient to a learned logit scale. Not by default: the bound is a
            guard, and every anchor at the bound would push the scale up.
        chunk_size: how many anchors are computed at a time, computed again in the backward pass. It saves
            most with :meth:`of_features`, where the B² similarities are never held. None: all at once.
        gather_distributed: take the samples of all processes as negatives, in :meth:`of_features` only; the
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
            raise ValueError(f"directions is {directions!r}, expected one of {', '.join(DIRECTIONS)}.")
        self.estimator = estimator
        self.directions = directions
        self.bound_gradient = bound_gradient
        self.chunk_size = checked_chunk_size(chunk_size)
        self.gather_distributed = gather_distributed

    def forward(
        self, similarity, logit_scale, class_probability=None, negative_similarity=None, labels=None, *, same_class=None
    ) -> Tensor:
        """The scalar loss; arguments as for :meth:`terms`."""
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
        """The loss and what it was computed from; anchors are ordered texts, then images.

        Args:
            similarity: (B, B) unscaled s(text_i, image_j) in [−1, 1].
            logit_scale: what similarities are multiplied with; a number or a scalar tensor.
            class_probability: η, a number or one per pair, shape (B,); overrides the estimator's own.
            negative_similarity: (B, B) how alike pairs i and j are known to be (symmetric), for estimators
                that need it.
            labels: (B,) class of each pair, for estimators that need labels.
            same_class: (B, B) bool, in place of labels where the classes of texts and images differ: whether image j
                is of the class of text i. Its transpose serves images as anchors.

        Raises:
            ValueError: if shapes do not fit, or something is missing that the estimator needs.
        """
        if similarity.dim() != 2 or similarity.shape[0] != similarity.shape[1]:
            raise ValueError(f"similarity has the shape {tuple(similarity.shape)}, expected (B, B).")
        if self.gather_distributed:
            raise ValueError("similarity holds one process's samples; gather_distributed needs of_features.")
        known = {"class_probability": class_probability, "negative_similarity": negative_similarity, "labels": labels}
        with outside_autocast(similarity.device):
            logits, floor = self._scaled(single_precision(similarity)[0], logit_scale)
            return self._of_matrix(logits.diagonal().clone(), logits, floor, known | {"same_class": same_class})

    def of_features(
        self,
        text_features: Tensor,
        image_features: Tensor,
        logit_scale: float | Tensor,
        class_probability: float | Tensor | None = None,
        negative_similarity: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> ContrastiveTerms:
        """As :meth:`terms`, from features whose inner product is the similarity.

        Args:
            text_features: (B, D), of length 1 each for a cosine similarity; not normalised here.
            image_features: (B, D), likewise.
            logit_scale: as for :meth:`terms`.
            class_probability: as for :meth:`terms`.
            negative_similarity: as for :meth:`terms`; on several processes (B, G), its columns the samples of
                all of them.
            labels: as for :meth:`terms`.

        Raises:
            ValueError: if shapes do not fit, or something is missing that the estimator needs.
        """
        if text_features.dim() != 2 or text_features.shape != image_features.shape:
            raise ValueError(
                f"text_features and image_features have the shapes {tuple(text_features.shape)} and "
                f"{tuple(image_features.shape)}, expected both (B, D)."
            )
        known = {"class_probability": class_probability, "negative_similarity": negative_similarity, "labels": labels}
        with outside_autocast(text_features.device):
            text, image = single_precision(text_features, image_features)
            scaled, floor = self._scaled(text, logit_scale)
            positive = torch.linalg.vecdot(scaled, image)
            if self.chunk_size is None and not self.gather_distributed:
                return self._of_matrix(positive, scaled @ image.mT, floor, known)  # one product for both directions
            pairs, rank = gathered(torch.stack((scaled, image)), self.gather_distributed)
            texts, images = pairs.transpose(0, 1).flatten(1, 2)
            anchors = {"text": (scaled, images), "image": (image, texts)}
            return self._of_directions(positive, anchors, floor, known | {"rank": rank})

    def _of_matrix(self, positive: Tensor, logits: Tensor, floor: float | Tensor, known: dict[str, Any]) -> ContrastiveTerms:
        """From the (B, B) logits of all texts with all images, which are changed in place."""
        logits.fill_diagonal_(-math.inf)
        anchors = {"text": (logits, None), "image": (logits.mT.contiguous(), None)}
        return self._of_directions(positive, anchors, floor, known)

    def _of_directions(
        self,
        positive: Tensor,
        anchors: Mapping[str, tuple[Tensor, Tensor | None]],
        floor: float | Tensor,
        known: dict[str, Any],
    ) -> ContrastiveTerms:
        """From each direction's anchors and keys, and the positives, which both directions share."""
        known |= {"views": 1, "gather_distributed": self.gather_distributed, "chunk_size": self.chunk_size}
        parts = []
        for direction in DIRECTIONS[self.directions]:
            if direction == "image" and known.get("same_class") is not None:
                known["same_class"] = known["same_class"].mT
            parts.append(contrastive_terms(self.estimator, positive, *anchors[direction], floor, **known))
        return joined(parts)

    def _scaled(self, values: Tensor, logit_scale: float | Tensor) -> tuple[Tensor, float | Tensor]:
        """The values times the logit scale, and the log of the lower bound of g."""
        if not isinstance(logit_scale, Tensor):
            return values * logit_scale, -logit_scale
        scale = logit_scale.reshape(())
        return values * scale, -scale if self.bound_gradient else -scale.detach()


class LogitScale(nn.Module):
    """A learned logit scale, the inverse of a temperature; kept at or below a maximum as CLIP does.

    The parameter is the scale's logarithm. It is itself set back to the maximum, rather than its value
    clamped, so that its gradient can lower it again.

    Args:
        initial: the scale at the beginning.
        maximum: its largest value.

    Raises:
        ValueError: unless 0 < initial ≤ maximum.

    Example:
        >>> round(LogitScale(initial=14.0)().item(), 3)
        14.0
    """

    def __init__(self, initial: float = 1 / 0.07, maximum: float = 100.0):
        super().__init__()
        if not 0 < initial <= maximum:
            raise ValueError(f"initial is {initial:g}, expected a positive number of at most {maximum:g}.")
        self.log_scale = nn.Parameter(torch.tensor(math.log(initial)))
        self.log_maximum = math.log(maximum)

    def forward(self) -> Tensor:
        """The scale, a scalar tensor."""
        with torch.no_grad():
            self.log_scale.clamp_(max=self.log_maximum)
        return self.log_scale.exp()


class SymmetricInfoNCE(nn.Module):
    r"""InfoNCE in both directions with a learned logit scale: CLIP's loss (Radford et al., 2021).

    .. math:: L = \frac{1}{2B} \sum_i \Bigl(-\log \frac{e^{\gamma c_{ii}}}{\sum_j e^{\gamma c_{ij}}}
              -\log \frac{e^{\gamma c_{ii}}}{\sum_j e^{\gamma c_{ji}}}\Bigr)

    Args:
        initial_logit_scale: γ at the beginning.
        maximum_logit_scale: its largest value.
        chunk_size: as for :class:`CrossModalLoss`.
        gather_distributed: as for :class:`CrossModalLoss`.

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
        super().__init__()
        self.logit_scale = LogitScale(initial_logit_scale, maximum_logit_scale)
        self.loss = CrossModalLoss(Uncorrected(), directions="both", chunk_size=chunk_size, gather_distributed=gather_distributed)

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """The scalar loss of (B, D) embeddings of the two modalities, normalised here."""
        with outside_autocast(u.device):
            u, v = (functional.normalize(each, dim=-1) for each in single_precision(u, v))
        return self.loss.of_features(u, v, self.logit_scale()).loss
