"""Contrastive losses between two modalities (the CLIP setting) with any estimator of the
true-negative mass.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from trueneg.losses.base import Estimator, check_tensors, checked_shape
from trueneg.losses.estimator_loss import ContrastiveTerms, EstimatorLoss, joined
from trueneg.losses.execution import gathered, gathered_rows, outside_autocast, single_precision
from trueneg.losses.facts import SampleFacts
from trueneg.losses.layout import Layout
from trueneg.losses.targets import Rule

Anchors = Mapping[str, tuple[Tensor, Tensor | None]]  # anchors and keys of each direction
DIRECTIONS = {"text": ("text",), "image": ("image",), "both": ("text", "image")}


class CrossModalLoss(EstimatorLoss):
    r"""Contrastive loss over B text–image pairs; an anchor's positive is its partner, and its
    negatives are the others' partners.

    .. math:: L = \frac{1}{A} \sum_a -\log \frac{e^{p_a}}{e^{p_a} + N g_a}

    with logits p, u = logit scale × similarity, N = B − 1 negatives, and log(N·g) from the
    estimator, bounded below by g ≥ e^(−logit scale). Text anchors can have H further negatives
    (hard negatives): then N = B − 1 + H. With ``targets`` or ``decoupled``, see
    :func:`trueneg.losses.anchor_loss.anchor_loss`. The loss is computed in float32 under autocast,
    and in float64 for float64 input.

    Args:
        estimator: estimator of the true-negative mass.
        directions: ``"text"``: texts are the anchors, images the negatives (Sample-Specific
            Debiasing, 2023); ``"image"``: the reverse; ``"both"``: the mean of the two (CLIP).
        bound_gradient: let gradients flow through the bound to a learned logit scale. Off by
            default: the bound is a safeguard, and every anchor at the bound would push the scale
            up.
        decoupled: see :class:`~trueneg.losses.ContrastiveLoss`.
        chunk_size: number of anchors to process at a time; chunks are recomputed in the backward
            pass. It saves the most memory with :meth:`of_features`, which then never stores all B²
            similarities. None: all at once.
        gather_distributed: use the samples of all processes as negatives (:meth:`of_features`
            only); the loss is the mean over this process's anchors.
        target_rule: see :class:`~trueneg.losses.ContrastiveLoss`.

    Raises:
        ValueError: if ``estimator`` is not an :class:`Estimator`, ``directions`` is unknown, or the
            chunk size is not positive.

    Example:
        >>> from trueneg.losses import CrossModalLoss, Debiased
        >>> loss = CrossModalLoss(Debiased(0.1), directions="text")
        >>> round(loss(torch.eye(8), logit_scale=1.0).item(), 3)  # log(1 + (7 − 0.1·7·e) / 0.9 / e)
        1.126
    """

    def __init__(
        self,
        estimator: Estimator,
        directions: str = "both",
        *,
        bound_gradient: bool = False,
        decoupled: bool = False,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
        target_rule: Rule | None = None,
    ):
        super().__init__(estimator, decoupled, chunk_size, gather_distributed, target_rule)
        if directions not in DIRECTIONS:
            raise ValueError(
                f"directions is {directions!r}; expected one of {', '.join(DIRECTIONS)}."
            )
        self.directions = directions
        self.bound_gradient = bound_gradient

    def forward(
        self, similarity: Tensor, logit_scale: float | Tensor, *known: Any, **named: Any
    ) -> Tensor:
        """Return the scalar loss; takes the same arguments as :meth:`terms`."""
        return self.terms(similarity, logit_scale, *known, **named).loss

    def terms(
        self,
        similarity: Tensor,
        logit_scale: float | Tensor,
        class_probability: float | Tensor | None = None,
        *,
        negative_similarity: Tensor | tuple[Tensor, Tensor] | None = None,
        labels: Tensor | None = None,
        same_class: Tensor | None = None,
        positive_similarity: Tensor | None = None,
        exclude: Tensor | None = None,
        targets: Tensor | tuple[Tensor, Tensor] | None = None,
    ) -> ContrastiveTerms:
        """Return the loss and the terms it is computed from; text anchors come first, then image
        anchors.

        Args:
            similarity: (B, B) or, with H hard negatives in the last columns, (B, B + H) unscaled
                s(text_i, image_j) in [−1, 1].
            logit_scale: factor applied to the similarities; a number or a scalar tensor.
            class_probability: η, a single number or one value per pair, shape (B,); overrides the
                estimator's own.
            negative_similarity: known similarity between samples, for estimators that need it: in
                the shape of ``similarity``, whose transpose is used for image anchors; or a pair,
                (B, B + H) for text and (B, B) for image anchors.
            labels: (B,) or (B + H,) class of each pair and hard negative, for estimators that need
                labels.
            same_class: (B, B + H) bool, whether image j has the class of text i; used instead of
                ``labels`` if the classes of texts and images differ. Its transpose is used for
                image anchors.
            positive_similarity: (B,) or, for both directions, (2B,) known similarity of each anchor
                and its positive, for estimators that need it.
            exclude: (B, B + H) bool, which columns are not negatives of a text; its transpose is
                used for image anchors. N counts only the other columns.
            targets: in the shape of ``similarity`` for text anchors, (B, B) for image anchors, or a
                pair for both; each row sums to 1, and T_ii is the weight of the positive. They get
                no gradient. None: the positive has all the weight.

        Raises:
            ValueError: if shapes do not match, or an input required by the estimator is missing.
        """
        if similarity.dim() != 2 or similarity.shape[0] > similarity.shape[1]:
            raise ValueError(
                f"similarity has shape {tuple(similarity.shape)}; expected (B, B) or (B, B + H)."
            )
        if self.gather_distributed:
            raise ValueError(
                "similarity contains the samples of this process only; call of_features to use"
                " gather_distributed."
            )
        facts = SampleFacts(
            class_probability,
            labels,
            same_class,
            negative_similarity,
            positive_similarity,
            exclude,
            targets,
        )
        with outside_autocast(similarity.device):
            logits, temperature = self._scaled(single_precision(similarity)[0], logit_scale)
            return self._of_logits(logits.diagonal().clone(), logits, temperature, facts)

    def of_features(
        self,
        text_features: Tensor,
        image_features: Tensor,
        logit_scale: float | Tensor,
        class_probability: float | Tensor | None = None,
        *,
        negative_similarity: Tensor | tuple[Tensor, Tensor] | None = None,
        labels: Tensor | None = None,
        positive_similarity: Tensor | None = None,
        exclude: Tensor | None = None,
        targets: Tensor | tuple[Tensor, Tensor] | None = None,
    ) -> ContrastiveTerms:
        """Return the same as :meth:`terms`, computing similarities as inner products of features.

        With several processes, matrices have one column for each of the G samples of all processes,
        then one for each hard negative of all processes; ``negative_similarity`` and ``exclude``
        are then assumed to be symmetric.

        Args:
            text_features: (B, D) text features, not normalised by this method; pass unit vectors
                for cosine similarity.
            image_features: (B, D) or (B + H, D) image features, not normalised by this method
                either.
            logit_scale: see :meth:`terms`, also for the arguments below.
            class_probability: η.
            negative_similarity: known similarity between samples.
            labels: classes.
            positive_similarity: known similarity to the positives.
            exclude: columns that are not negatives.
            targets: soft targets.

        Raises:
            ValueError: if shapes do not match, or an input required by the estimator is missing.
        """
        of_texts = tuple(text_features.shape)
        of_images = tuple(image_features.shape)
        if not (
            len(of_texts) == len(of_images) == 2
            and of_texts[0] <= of_images[0]
            and of_texts[1] == of_images[1]
        ):
            raise ValueError(
                f"text_features and image_features have shapes {of_texts} and {of_images};"
                " expected (B, D) and (B + H, D)."
            )
        count = len(text_features)
        facts = SampleFacts(
            class_probability,
            labels,
            None,
            negative_similarity,
            positive_similarity,
            exclude,
            targets,
        )
        with outside_autocast(text_features.device):
            text, image = single_precision(text_features, image_features)
            scaled, temperature = self._scaled(text, logit_scale)
            positive = torch.linalg.vecdot(scaled, image[:count])
            # one product for both directions
            if self.chunk_size is None and not self.gather_distributed:
                return self._of_logits(positive, scaled @ image.mT, temperature, facts)
            images, rank = gathered_rows(image, count, self.gather_distributed)
            texts = gathered(scaled, self.gather_distributed)[0].flatten(0, 1)
            layout = Layout(count, len(texts), len(images), offset=rank * count, device=text.device)
            anchors = {"text": (scaled, images), "image": (image[:count], texts)}
            return self._of_directions(layout, positive, anchors, temperature, facts)

    def _of_logits(
        self, positive: Tensor, logits: Tensor, temperature: float | Tensor, facts: SampleFacts
    ) -> ContrastiveTerms:
        """Compute the terms from the (B, B + H) text–image logits, which are modified in place."""
        logits.fill_diagonal_(-math.inf)
        count, columns = logits.shape
        layout = Layout(count, count, columns, device=logits.device)
        anchors = {"text": (logits, None), "image": (logits[:, :count].mT.contiguous(), None)}
        return self._of_directions(layout, positive, anchors, temperature, facts)

    def _of_directions(
        self,
        layout: Layout,
        positive: Tensor,
        anchors: Anchors,
        temperature: float | Tensor,
        facts: SampleFacts,
    ) -> ContrastiveTerms:
        """Compute the terms of each direction's anchors.

        Args:
            layout: what the rows and columns of the text–image logits are.
            positive: (B,) logits, shared by both directions.
            anchors: anchors and keys of each direction, as :meth:`of_anchors` takes them.
            temperature: t, the inverse of the logit scale.
            facts: known facts as :meth:`terms` takes them, not yet arranged by anchor.
        """
        check_tensors(
            labels=facts.labels,
            same_class=facts.same_class,
            positive_similarity=facts.positive_similarity,
            exclude=facts.exclude,
        )
        directions = DIRECTIONS[self.directions]
        targets = (facts.targets,) if isinstance(facts.targets, Tensor) else facts.targets
        if targets is not None and len(targets) != len(directions):
            raise ValueError(
                f"targets has {len(targets)} tensors; expected one per direction:"
                f" {', '.join(directions)}."
            )
        positives = facts.positive_similarity
        if positives is not None:
            if positives.shape == (layout.count,):
                positives = positives.repeat(len(directions))
            checked_shape("positive_similarity", positives, (len(directions) * layout.count,))
            positives = positives.view(len(directions), layout.count)
        parts = []
        for number, direction in enumerate(directions):
            of_direction = _by_anchor(facts, layout, direction)._replace(
                positive_similarity=None if positives is None else positives[number],
                targets=None if targets is None else targets[number],
            )
            of_side = layout if direction == "text" else replace(layout, candidates=layout.samples)
            parts.append(
                self.of_anchors(of_side, positive, *anchors[direction], temperature, of_direction)
            )
        return joined(parts)

    def _scaled(self, values: Tensor, logit_scale: float | Tensor) -> tuple[Tensor, float | Tensor]:
        """Return the values multiplied by the logit scale, and the temperature, its inverse."""
        if not isinstance(logit_scale, Tensor):
            return values * logit_scale, 1 / logit_scale
        scale = logit_scale.reshape(())
        return values * scale, 1 / (scale if self.bound_gradient else scale.detach())


def _by_anchor(facts: SampleFacts, layout: Layout, direction: str) -> SampleFacts:
    """Return facts about text–image pairs with the anchors of a direction as rows; the layout is
    that of texts.
    """
    count = layout.count
    samples = layout.samples
    is_text = direction == "text"

    def arranged(name: str, matrix: Tensor | None) -> Tensor | None:
        if matrix is None:
            return None
        checked_shape(name, matrix, (count, layout.candidates))
        if is_text:
            return matrix
        # symmetric among several processes
        return matrix[:, :samples] if samples > count else matrix[:, :count].mT

    similarity = facts.similarity
    if similarity is None or isinstance(similarity, Tensor):
        similarity = arranged("negative_similarity", similarity)
    elif len(similarity) == 2:
        similarity = checked_shape(
            "negative_similarity",
            similarity[not is_text],
            (count, layout.candidates if is_text else samples),
        )
    else:
        raise ValueError(
            f"negative_similarity has {len(similarity)} parts; expected a tensor or a pair of"
            " tensors."
        )
    return facts._replace(
        labels=facts.labels if is_text or facts.labels is None else facts.labels[:count],
        same_class=arranged("same_class", facts.same_class),
        similarity=similarity,
        exclude=arranged("exclude", facts.exclude),
    )


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
            raise ValueError(
                f"initial is {initial:g}; expected a positive number of at most {maximum:g}."
            )
        self.log_scale = nn.Parameter(torch.tensor(math.log(initial)))
        self.log_maximum = math.log(maximum)

    def forward(self) -> Tensor:
        """Return the scale as a scalar tensor."""
        with torch.no_grad():
            self.log_scale.clamp_(max=self.log_maximum)
        return self.log_scale.exp()
