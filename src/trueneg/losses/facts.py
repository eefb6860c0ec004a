"""What is known about the samples, besides their embeddings."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from trueneg.losses.base import Estimator, checked_shape, is_readable
from trueneg.losses.execution import gathered_rows
from trueneg.losses.layout import Layout

TOLERANCE = 1e-4  # for the sum of a row of targets


class SampleFacts(NamedTuple):
    """Known facts about the samples; for the letters, see :mod:`trueneg.losses.layout`.

    Attributes:
        class_probability: η, a single number or a tensor of shape (B,); None: the estimator's own,
            which may have the shape (A,).
        labels: (B + H',) class of each sample and of the H' further negatives of this process; once
            checked, (G + H,) of all. A label below 0 (or NaN) is unknown: the sample shares its
            class with no other.
        same_class: (B, G + H) bool, whether sample j has the class of anchor i, used instead of
            ``labels``.
        similarity: (A, G + H) or (A, K) known similarity to the anchors.
        positive_similarity: (A,) known similarity of the anchors and their own positives.
        exclude: (A, K) bool, columns that are not negatives; those with a target still attract.
        targets: (B, G + H), or (A, G + H) if the views of a sample have different targets; see
            :func:`checked_targets`.
    """

    class_probability: float | Tensor | None = None
    labels: Tensor | None = None
    same_class: Tensor | None = None
    similarity: Any = None
    positive_similarity: Tensor | None = None
    exclude: Tensor | None = None
    targets: Any = None

    def checked(
        self, layout: Layout, estimator: Estimator, dtype: torch.dtype, gather_distributed: bool
    ) -> "SampleFacts":
        """Return the facts after checking them, with the labels of all processes, and targets in
        the dtype of the logits.

        Raises:
            ValueError: if a shape is wrong, a fact that the estimator needs is missing, or a value
                is out of range.
        """
        count = layout.count
        anchors = layout.views * layout.count
        eta = self.class_probability
        own: Any = getattr(estimator, "class_probability", None)
        if eta is None and isinstance(own, Tensor) and own.dim() > 0:
            eta = own  # so that it is split as the anchors are
        if isinstance(eta, Tensor) and eta.dim() > 0:
            size = anchors if eta is own and len(eta) == anchors else count
            eta = checked_shape("class_probability", eta, (size,)).to(layout.device)
        similarity = self.similarity
        if estimator.needs_similarity or similarity is not None:
            check_known("negative_similarity", similarity, layout)
            if estimator.needs_positive_similarity and not similarity.is_floating_point():
                # the threshold, which is near the positive's similarity, may be a fraction
                similarity = similarity.to(dtype)
        if self.positive_similarity is not None:
            checked_shape("positive_similarity", self.positive_similarity, (anchors,))
            check_known("positive_similarity", self.positive_similarity)
        if self.exclude is not None and self.exclude.dtype != torch.bool:
            raise ValueError(f"exclude is {self.exclude.dtype}; expected bool.")
        labels = None
        if estimator.needs_labels and self.same_class is not None:
            checked_shape("same_class", self.same_class, (count, layout.candidates))
        elif estimator.needs_labels:
            labels = checked_labels(self.labels, layout, gather_distributed)
        targets = self.targets
        if targets is not None:
            rows = anchors if len(targets) == anchors else count
            targets = checked_targets(targets, (rows, layout.candidates)).to(dtype)
        return self._replace(
            class_probability=eta, labels=labels, targets=targets, similarity=similarity
        )

    def of_estimator(
        self, layout: Layout, estimator: Estimator, anchors: Tensor | None
    ) -> dict[str, Any]:
        """Return what an estimator takes about some anchors (None: all), keyword arguments of
        :meth:`Estimator.mass`.
        """
        eta = self.class_probability
        if isinstance(eta, Tensor) and eta.dim() > 0:
            eta = layout.rows(eta, anchors)
        known: dict[str, Any] = {"class_probability": eta, "views": layout.views}
        if estimator.needs_labels:
            if self.same_class is not None:
                same_class = layout.rows(self.same_class, anchors)
            elif self.labels is not None:
                of_anchors = self.labels[layout.own_columns(anchors)[:, :1]]
                same_class = of_anchors == self.labels
                if not is_readable(of_anchors) or (of_anchors < 0).any():
                    same_class &= of_anchors >= 0
            known["same_class"] = layout.by_column(same_class)
        if estimator.needs_similarity:
            known["similarity"] = layout.by_column(layout.rows(self.similarity, anchors))
        if self.positive_similarity is not None:
            known["positive_similarity"] = layout.rows(self.positive_similarity, anchors)
        return known


def check_known(name: str, similarity: Tensor | None, layout: Layout | None = None) -> None:
    """Check that a known similarity is not missing and, on a CPU, that it has no NaN where it is
    used.

    Args:
        name: its name, for messages.
        similarity: values, (A,), (A, G + H) or (A, K).
        layout: of the similarity's rows and columns; NaN is allowed in the columns of each anchor's
            own sample.

    Raises:
        ValueError: if it is missing, or contains NaN. On an accelerator, values are not read.
    """
    if similarity is None:
        raise ValueError(f"{name} is missing; the estimator needs it.")
    # the sum takes a twentieth of the time
    if not is_readable(similarity) or not similarity.sum().isnan():
        return
    wrong = similarity.isnan()
    if layout is not None:
        # with one column per sample, all views share it
        wrong.scatter_(1, layout.own_columns(None) % similarity.shape[1], False)
    if wrong.any():
        raise ValueError(f"{name} contains NaN; expected numbers.")


def checked_labels(labels: Tensor | None, layout: Layout, gather_distributed: bool) -> Tensor:
    """Return the labels of the samples and further negatives of all processes, (G + H,).

    Raises:
        ValueError: if the shape is wrong, or all labels are unknown.
    """
    of_process = layout.candidates * layout.count // layout.samples
    labels = checked_shape("labels", labels, (of_process,))
    labels, _ = gathered_rows(labels, layout.count, gather_distributed)
    if is_readable(labels) and not (labels >= 0).any():
        raise ValueError(
            "labels are all unknown (below 0); expected the class of each sample, from 0."
        )
    return labels


def checked_targets(targets: Tensor, shape: Sequence[int]) -> Tensor:
    """Return soft targets without their gradient, after checking them; rows sum to 1.

    Raises:
        ValueError: if the shape is wrong, or a row does not sum to 1 within 1e-4; on an
            accelerator, such a row becomes NaN.
    """
    targets = checked_shape("targets", targets, shape).detach()
    wrong = ~((targets.sum(1) - 1).abs() <= TOLERANCE)  # NaN is wrong, too
    if not is_readable(targets):
        return targets.masked_fill(wrong[:, None], math.nan)
    if wrong.any():
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"targets: row {row} sums to {targets[row].sum():g}; expected 1 (within {TOLERANCE:g})"
            " in every row."
        )
    return targets
