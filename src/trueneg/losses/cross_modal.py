"""Contrastive losses between two modalities (the CLIP setting) with any estimator of the
true-negative mass.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from trueneg.losses.base import AnchorCriterion
from trueneg.losses.checks import (
    check_tensors,
    checked_choice,
    checked_positive,
    checked_shape,
    is_readable,
    reshape_scalars,
)
from trueneg.losses.estimator_loss import ContrastiveTerms, EstimatorLoss, joined, scalar
from trueneg.losses.estimators.sigmoid import log_mass_of
from trueneg.losses.execution import gathered, gathered_rows, outside_autocast, single_precision
from trueneg.losses.facts import SampleFacts
from trueneg.losses.further import FurtherKeys
from trueneg.losses.layout import Layout
from trueneg.losses.targets import Rule

DIRECTIONS = {"text": ("text",), "image": ("image",), "both": ("text", "image")}
Pair = tuple[Tensor | None, Tensor | None]  # of the texts' and the images' anchors


class CrossModalLoss(EstimatorLoss):
    r"""Contrastive loss over B text–image pairs; an anchor's positive is its partner, and its
    negatives are the others' partners.

    .. math:: L = \frac{1}{A} \sum_a -\log \frac{e^{p_a}}{e^{p_a} + N g_a}

    with logits p, u = logit scale × similarity, N = B − 1 negatives, and log(N·g) from the
    estimator, bounded below by g ≥ e^(−logit scale). Text anchors can have H further negatives
    (hard negatives): then N = B − 1 + H. With ``targets`` or ``decoupled``, see
    :func:`trueneg.losses.anchor_loss.anchor_loss`. The loss is computed in float32 under autocast,
    and in float64 for float64 input. A pair alone has no negatives: its loss is 0.

    Args:
        estimator: estimator of the true-negative mass, or :class:`~trueneg.losses.Sigmoid`.
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
        negatives: see :class:`~trueneg.losses.ContrastiveLoss`.
        reduction: ``"mean"``, or ``"none"`` for the loss of each anchor, (A,), texts first.

    Attributes:
        share_at_bound: see :class:`~trueneg.losses.ContrastiveLoss`.
        share_of_hard_removed: see :class:`~trueneg.losses.ContrastiveLoss`.

    Raises:
        ValueError: if ``estimator`` is not an estimator, ``directions`` or another value is
            unknown, or the chunk size is not positive.

    Example:
        >>> from trueneg.losses import CrossModalLoss, Debiased
        >>> loss = CrossModalLoss(Debiased(0.1), directions="text")
        >>> round(loss(torch.eye(8), logit_scale=1.0).item(), 3)  # log(1 + (7 − 0.1·7·e) / 0.9 / e)
        1.126
    """

    def __init__(
        self,
        estimator: AnchorCriterion,
        directions: str = "both",
        *,
        bound_gradient: bool = False,
        decoupled: bool = False,
        chunk_size: int | None = None,
        gather_distributed: bool = False,
        target_rule: Rule | None = None,
        negatives: str = "all",
        reduction: str = "mean",
    ):
        options = decoupled, chunk_size, gather_distributed, target_rule, negatives, reduction
        super().__init__(estimator, *options)
        self.directions = checked_choice("directions", directions, list(DIRECTIONS))
        self.sides = len(DIRECTIONS[directions])
        self.bound_gradient = bound_gradient

    def terms(
        self,
        similarity: Tensor,
        logit_scale: float | Tensor,
        *,
        class_probability: float | Tensor | None = None,
        labels: Tensor | None = None,
        same_class: Tensor | tuple[Tensor, Tensor] | None = None,
        negative_similarity: Tensor | tuple[Tensor, Tensor] | None = None,
        positive_similarity: Tensor | None = None,
        exclude: Tensor | tuple[Tensor, Tensor] | None = None,
        targets: Tensor | tuple[Tensor, Tensor] | None = None,
        same_query: Tensor | None = None,
        sampling_probability: Tensor | None = None,
        index: Tensor | None = None,
        owners: Tensor | None = None,
        unused: str = "error",
    ) -> ContrastiveTerms:
        """Return the loss and the terms it is computed from; text anchors come first, then image
        anchors. ``loss(…)`` takes the same arguments, and returns the loss alone.

        Args:
            similarity: (B, B) or, with H hard negatives in the last columns, (B, B + H) unscaled
                s(text_i, image_j) in [−1, 1].
            logit_scale: factor applied to the similarities; a number or a scalar tensor.
            class_probability: η, a single number or one value per pair, shape (B,); overrides the
                estimator's own.
            labels: (B,) or (B + H,) class of each pair and hard negative, for estimators that need
                labels; below 0: unknown.
            same_class: (B, B + H) bool, whether image j has the class of text i; used instead of
                ``labels`` if the classes of texts and images differ. Its transpose is used for
                image anchors. Or a pair, as below.
            negative_similarity: known similarity between samples, for estimators that need it: in
                the shape of ``similarity``, whose transpose is used for image anchors; or a pair,
                (B, B + H) for text and (B, B) for image anchors.
            positive_similarity: (B,) or, for both directions, (2B,) known similarity of each anchor
                and its positive, for estimators that need it.
            exclude: (B, B + H) bool, which columns are not negatives of a text; its transpose is
                used for image anchors. Or a pair, as above. N counts only the other columns.
            targets: in the shape of ``similarity`` for text anchors, (B, B) for image anchors, or a
                pair for both; each row sums to 1, and T_ii is the weight of the positive. They get
                no gradient. None: the positive has all the weight.
            same_query: (B,) or, with those of hard negatives, (B + H,) integers; pairs with equal
                ones of at least 0 are right answers to the same query, so that they are not
                negatives of each other.
            sampling_probability: (B + H,) probability with which each sample is drawn, for
                :class:`~trueneg.losses.LogQ`.
            index: (B,) number of each pair among all training pairs, for estimators that remember
                samples.
            owners: (H,) number of the text to which each hard negative belongs, for an estimator's
                ``scope``; None: all texts.
            unused: see :meth:`ContrastiveLoss.terms`.

        Raises:
            ValueError: if shapes do not match, an input required by the estimator is missing, a
                fact is not used, or, on a CPU, a similarity is −∞ or the scale not positive.
        """
        check_tensors(similarity=similarity)
        if similarity.dim() != 2 or similarity.shape[0] > similarity.shape[1]:
            raise ValueError(
                f"similarity has shape {tuple(similarity.shape)}; expected (B, B) or (B, B + H)."
            )
        if is_readable(similarity) and similarity.isneginf().any():
            raise ValueError(
                "similarity contains -inf; expected numbers, and `exclude` for columns that are not"
                " negatives."
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
            same_query,
            sampling_probability,
            index,
            owners=owners,
        )
        facts.refuse_unused(self.estimator, self.target_rule, unused)
        hard = similarity.shape[1] - similarity.shape[0]
        self._refuse_unused_columns(hard > 0, False, unused)
        with outside_autocast(similarity.device):
            logits, temperature = self._scaled(single_precision(similarity)[0], logit_scale)
            positive = logits.diagonal().clone()
            terms = self._of_logits(positive, logits, temperature, facts, hard)
            return self.finished(terms, index)

    forward = scalar(terms)

    def of_features(
        self,
        text_features: Tensor,
        image_features: Tensor,
        logit_scale: float | Tensor,
        *,
        class_probability: float | Tensor | None = None,
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
        logit_bias: Tensor | None = None,
        unused: str = "error",
    ) -> ContrastiveTerms:
        """Return the same as :meth:`terms`, computing similarities as inner products of features.

        With several processes, matrices have one column for each of the G samples of all processes,
        then one for each hard negative of all processes and each queued key; a single
        ``negative_similarity``, ``same_class`` or ``exclude`` is then assumed to be symmetric.

        Args:
            text_features: (B, D) text features, not normalised by this method; pass unit vectors
                for cosine similarity.
            image_features: (B, D) or (B + H, D) image features, not normalised by this method
                either.
            logit_scale: see :meth:`terms`, also for what is not explained here.
            class_probability: η.
            labels: (B,) or (B + H + Q,).
            same_class: (B, S) bool, or a pair.
            negative_similarity: (B, S), or a pair.
            positive_similarity: (B,) or (2B,).
            exclude: (B, S) bool, or a pair.
            targets: (B, S), or a pair.
            same_query: (B,) or (B + H + Q,) integers.
            hard_negatives: (H, D) images that are further negatives of all texts, as if they came
                last in ``image_features``; or (B, n, D), n of each text.
            queue: (Q, D) past image features, further negatives of all texts, the same in all
                processes; or a pair of past image and text features, the latter for image anchors.
                With past texts, a matrix has to be a pair, the latter for image anchors; with both,
                labels and queries leave them out.
            sampling_probability: (S,).
            index: (B,) numbers.
            logit_bias: scalar tensor, the bias of :class:`~trueneg.losses.Sigmoid` in place of its
                own; a constant added to every logit cancels in a softmax.
            unused: ``"error"`` or ``"ignore"``.

        Raises:
            ValueError: if shapes do not match, an input required by the estimator is missing, or a
                fact, hard negatives or a queue are not used.
        """
        check_tensors(text_features=text_features, image_features=image_features)
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
            logit_bias=logit_bias,
        )
        facts.refuse_unused(self.estimator, self.target_rule, unused)
        past: Pair = queue if isinstance(queue, tuple) else (queue, None)
        has_hard = hard_negatives is not None or of_images[0] > of_texts[0]
        self._refuse_unused_columns(has_hard or past[0] is not None, past[1] is not None, unused)
        with outside_autocast(text_features.device):
            text, image = single_precision(text_features, image_features)
            terms = self._of_features(text, image, logit_scale, facts, hard_negatives, past)
            return self.finished(terms, index)

    def _refuse_unused_columns(self, of_texts: bool, of_images: bool, unused: str) -> None:
        """Refuse further negatives of texts, or of images, if these are no anchors.

        Raises:
            ValueError: unless ``unused`` is ``"ignore"``.
        """
        if unused == "ignore":
            return
        if of_texts and self.directions == "image":
            raise ValueError(
                "Hard negatives or a queue of images are given, which are negatives of texts, but"
                ' directions is "image"; leave them out, or pass unused="ignore".'
            )
        if of_images and self.directions == "text":
            raise ValueError(
                "A queue of texts is given, which are negatives of images, but directions is"
                ' "text"; leave it out, or pass unused="ignore".'
            )

    def _of_features(
        self,
        text: Tensor,
        image: Tensor,
        logit_scale: float | Tensor,
        facts: SampleFacts,
        hard_negatives: Tensor | None = None,
        past: Pair = (None, None),
    ) -> ContrastiveTerms:
        """Compute the terms from features in single precision."""
        count = len(text)
        scaled, temperature = self._scaled(text, logit_scale)
        if len(image) > count:
            if hard_negatives is not None:
                raise ValueError(
                    f"image_features has {len(image) - count} hard negatives, and hard_negatives"
                    " is given; expected one of both."
                )
            image, hard_negatives = image.split((count, len(image) - count))
        positive = torch.linalg.vecdot(scaled, image)
        gathers = self.gather_distributed
        further = FurtherKeys(hard_negatives, past[0], count, gathers, image, normalises=False)
        past_texts = FurtherKeys(None, past[1], count, gathers, scaled, normalises=False)
        if further.owners is not None:
            facts = replace(facts, owners=further.owners)
        # one product for both directions
        if self.chunk_size is None and not gathers and not past_texts.queued:
            logits = scaled @ further.after(image).mT
            return self._of_logits(positive, logits, temperature, facts, further.hard)
        images, rank = gathered_rows(image, count, gathers)
        texts = gathered(text, gathers)[0].flatten(0, 1)
        layout = Layout(
            count,
            len(texts),
            further.hard,
            further.queued,
            offset=rank * count,
            device=text.device,
            dtype=text.dtype,
        )
        anchors = {
            "text": (scaled, further.after(images), layout),
            "image": (
                self._scaled(image, logit_scale)[0],
                past_texts.after(texts),
                replace(layout, hard=0, queued=past_texts.queued),
            ),
        }
        return self._of_directions(positive, anchors, temperature, facts)

    def _of_logits(
        self,
        positive: Tensor,
        logits: Tensor,
        temperature: float | Tensor,
        facts: SampleFacts,
        hard: int,
    ) -> ContrastiveTerms:
        """Compute the terms from the (B, S) text–image logits, which are modified in place."""
        logits.fill_diagonal_(-math.inf)
        count, columns = logits.shape
        has_pairs = any(
            isinstance(each, tuple | list)
            for each in (facts.similarity, facts.exclude, facts.same_class)
        )
        if self.estimator.pairwise and self.sides == 2 and columns == count and not has_pairs:
            return self._of_pairs(positive, logits, temperature, facts)
        layout = Layout(
            count,
            count,
            hard,
            columns - count - hard,
            device=logits.device,
            dtype=logits.dtype,
        )
        square = replace(layout, hard=0, queued=0)
        anchors = {
            "text": (logits, None, layout),
            "image": (logits[:, :count].mT.contiguous(), None, square),
        }
        return self._of_directions(positive, anchors, temperature, facts)

    def _of_pairs(
        self,
        positive: Tensor,
        logits: Tensor,
        temperature: float | Tensor,
        facts: SampleFacts,
    ) -> ContrastiveTerms:
        """Compute the terms of both directions from one sum over pairs, (B, B)."""
        count = len(logits)
        layout = Layout(count, count, device=logits.device, dtype=logits.dtype)
        rows = self.rows_of(layout, positive, None, temperature, facts)
        seen, left_out = rows.seen(positive, logits, None)
        of_positives, of_columns, marked = self.estimator.of_pairs(seen, left_out)
        each = torch.cat((of_positives + of_columns.sum(1), of_positives + of_columns.sum(0)))
        kept = logits if left_out is None else logits.masked_fill(left_out, -math.inf)
        both = positive.repeat(2)
        log_mass = log_mass_of(each, both)
        return ContrastiveTerms(
            each.mean() if self.reduction == "mean" else each,
            both[:, None],
            (kept, kept.mT),
            log_mass,
            torch.zeros_like(log_mass, dtype=torch.bool),
            removed=() if marked is None else (marked, marked.mT),
        )

    def _of_directions(
        self,
        positive: Tensor,
        anchors: Mapping[str, tuple[Tensor, Tensor | None, Layout]],
        temperature: float | Tensor,
        facts: SampleFacts,
    ) -> ContrastiveTerms:
        """Compute the terms of each direction's anchors.

        Args:
            positive: (B,) logits, shared by both directions.
            anchors: anchors, keys and layout of each direction, as :meth:`of_anchors` takes them.
            temperature: t, the inverse of the logit scale.
            facts: known facts as :meth:`terms` takes them, not yet arranged by anchor.
        """
        directions = DIRECTIONS[self.directions]
        targets = (facts.targets,) if isinstance(facts.targets, Tensor) else facts.targets
        if targets is not None and len(targets) != len(directions):
            raise ValueError(
                f"targets has {len(targets)} tensors; expected one per direction:"
                f" {', '.join(directions)}."
            )
        check_tensors(positive_similarity=facts.positive_similarity)
        count = len(positive)
        positives = facts.positive_similarity
        if positives is not None:
            if positives.shape == (count,):
                positives = positives.repeat(len(directions))
            checked_shape("positive_similarity", positives, (len(directions) * count,))
            positives = positives.view(len(directions), count)
        parts = []
        for number, direction in enumerate(directions):
            rows, keys, layout = anchors[direction]
            of_texts = anchors["text"][2]
            place = 0 if direction == "text" else 1
            known = facts if direction == "text" else _of_images(facts, of_texts, layout)
            known = replace(
                known,
                similarity=_part("negative_similarity", facts.similarity, known.similarity, place),
                exclude=_part("exclude", facts.exclude, known.exclude, place),
                same_class=_part("same_class", facts.same_class, known.same_class, place),
                positive_similarity=None if positives is None else positives[number],
                targets=None if targets is None else targets[number],
            )
            parts.append(
                self.of_anchors(layout, positive, rows, keys, temperature, known, side=number)
            )
        return joined(parts)

    def _scaled(self, values: Tensor, logit_scale: float | Tensor) -> tuple[Tensor, float | Tensor]:
        """Return the values multiplied by the logit scale, and the temperature, its inverse."""
        if not isinstance(logit_scale, Tensor):
            number = checked_positive("logit_scale", logit_scale)
            return values * number, 1 / number
        if logit_scale.numel() != 1:
            raise ValueError(
                f"logit_scale has shape {tuple(logit_scale.shape)}; expected a number. A call takes"
                " similarities; of_features takes two batches of features."
            )
        scale = logit_scale.reshape(())
        if is_readable(scale) and scale <= 0:
            raise ValueError(f"logit_scale is {scale.item():g}; expected a positive number.")
        return values * scale, 1 / (scale if self.bound_gradient else scale.detach())


def _of_images(facts: SampleFacts, of_texts: Layout, layout: Layout) -> SampleFacts:
    """Return facts about text–image pairs with the images as anchors.

    Args:
        facts: facts with the texts as anchors.
        of_texts: layout of the texts' logits.
        layout: that of the images' logits.
    """
    count = layout.count

    def transposed(name: str, matrix: Tensor | None) -> Tensor | None:
        if matrix is None or isinstance(matrix, tuple | list):
            return None
        checked_shape(name, matrix, (count, of_texts.candidates))
        if layout.queued:
            raise ValueError(f"{name} does not cover the queue of texts; expected a pair.")
        # symmetric among several processes
        return matrix[:, : layout.samples] if layout.samples > count else matrix[:, :count].mT

    def of_samples(name: str, values: Tensor | None) -> Tensor | None:
        if not isinstance(values, Tensor):
            return values
        hard = of_texts.hard * count // of_texts.samples
        queued = values[count + hard :]
        if not of_texts.queued:  # those of texts
            return torch.cat((values[:count], queued))
        if layout.queued and len(queued):
            raise ValueError(
                f"{name} covers the queue of images, but not that of texts; leave out both, or call"
                " a loss for each direction."
            )
        return values[:count]

    return replace(
        facts,
        labels=of_samples("labels", facts.labels),
        same_class=transposed("same_class", facts.same_class),
        similarity=transposed("negative_similarity", facts.similarity),
        exclude=transposed("exclude", facts.exclude),
        same_query=of_samples("same_query", facts.same_query),
        sampling_probability=of_samples("sampling_probability", facts.sampling_probability),
        owners=None,
    )


def _part(name: str, passed: object, arranged: Tensor | None, place: int) -> Tensor | None:
    """Return the part of a pair for texts (0) or images (1); what is no pair was arranged."""
    if not isinstance(passed, tuple | list):
        return arranged
    if len(passed) != 2:
        raise ValueError(f"{name} has {len(passed)} parts; expected a tensor or a pair of tensors.")
    return passed[place]


class LogitScale(nn.Module):
    """Learned logit scale (inverse temperature), limited to a maximum as in CLIP.

    The parameter is the logarithm of the scale. If it exceeds the maximum, the parameter itself is
    clamped, not its output, so that gradients can lower it again. With FSDP2, call :meth:`limit`
    after each step of the optimiser.

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
        if not checked_positive("initial", initial) <= checked_positive("maximum", maximum):
            raise ValueError(
                f"initial is {initial:g}; expected a positive number of at most {maximum:g}."
            )
        # of shape (1,), because FSDP2 cannot shard scalars
        self.log_scale = nn.Parameter(torch.tensor([math.log(initial)]))
        self.register_load_state_dict_pre_hook(reshape_scalars)
        self.log_maximum = math.log(maximum)

    def forward(self) -> Tensor:
        """Return the scale as a scalar tensor."""
        self.limit()
        return self.log_scale[0].exp()

    @torch.no_grad()
    def limit(self) -> None:
        """Clamp the parameter. Each call of the module does it, too, but FSDP2 discards what a
        forward pass changes.
        """
        self.log_scale.clamp_(max=self.log_maximum)
