"""What is known about the samples, besides their embeddings."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from trueneg.losses.base import AnchorCriterion
from trueneg.losses.checks import (
    check_tensors,
    checked_choice,
    checked_class_probability,
    checked_shape,
    is_readable,
)
from trueneg.losses.execution import gathered_rows
from trueneg.losses.layout import Layout

TOLERANCE = 1e-4  # for the sum of a row of targets
UNUSED = ("error", "ignore")


@dataclass(frozen=True)
class SampleFacts:
    """Known facts about the samples; for the letters, see :mod:`trueneg.losses.layout`. H' and Q
    are the further negatives of this process; facts of samples may leave out the last of them.

    Attributes:
        class_probability: η, a single number or a tensor of shape (B,); None: the estimator's own,
            which may have the shape (A,).
        labels: (B + H' + Q,) class of each sample and further negative of this process; once
            checked, (S,) of all. A label below 0 (or NaN), or none, is unknown: the sample shares
            its class with no other.
        same_class: (B, S) bool, whether sample j has the class of anchor i, used instead of
            ``labels``.
        similarity: (A, S) or (A, K) known similarity to the anchors.
        positive_similarity: (A,) known similarity of the anchors and their own positives.
        exclude: (B, S), (A, S) or (A, K) bool, columns that are not negatives; those with a target
            still attract.
        targets: (B, S), or (A, S) if the views of a sample have different targets; see
            :func:`checked_targets`.
        same_query: (B,) number of each sample's query or, with those of further negatives, (B + H'
            + Q); samples of one query, all of which are right answers to it, are not negatives of
            each other. Below 0: a query of its own.
        sampling_probability: (B + H' + Q,) probability with which each sample is drawn; once
            checked, its logarithm, (S,), of all.
        index: (B,) number of each sample among all training samples.
        extra_positives: (B, M−1, D) further draws from each sample's class.
        owners: (H',) the sample to which each hard negative belongs; None: to all.
        logit_bias: the bias of the sigmoid loss, in place of its own.
    """

    class_probability: float | Tensor | None = None
    labels: Tensor | None = None
    same_class: Any = None
    similarity: Any = None
    positive_similarity: Tensor | None = None
    exclude: Any = None
    targets: Any = None
    same_query: Tensor | None = None
    sampling_probability: Tensor | None = None
    index: Tensor | None = None
    extra_positives: Tensor | None = None
    owners: Tensor | None = None
    logit_bias: Tensor | None = None

    def refuse_unused(self, estimator: AnchorCriterion, rule: object, unused: str) -> None:
        """Refuse facts that have no effect.

        Args:
            estimator: the loss's estimator.
            rule: the rule that computes targets, or None.
            unused: ``"error"``, or ``"ignore"`` to accept them.

        Raises:
            ValueError: names a fact that has no effect; or if ``unused`` is something else.
        """
        if checked_choice("unused", unused, UNUSED) == "ignore":
            return
        needs_labels = estimator.needs_labels or getattr(rule, "needs_labels", False)
        needs_similarity = estimator.needs_similarity or getattr(rule, "needs_similarity", False)
        used = {
            "class_probability": estimator.uses_class_probability,
            "labels": needs_labels and self.same_class is None,
            "same_class": needs_labels,
            "similarity": needs_similarity,
            "positive_similarity": estimator.needs_positive_similarity,
            "sampling_probability": estimator.needs_probability,
            "index": estimator.keeps_average or estimator.keeps_threshold,
            "extra_positives": estimator.uses_extra_positives,
        }
        for name, is_used in used.items():
            if getattr(self, name) is not None and not is_used:
                public = "negative_similarity" if name == "similarity" else name
                raise ValueError(
                    f"{public} is given, but {estimator} does not use it; leave it out, or pass"
                    ' unused="ignore".'
                )

    def checked(
        self,
        layout: Layout,
        estimator: AnchorCriterion,
        rule: object,
        dtype: torch.dtype,
        gather_distributed: bool,
    ) -> "SampleFacts":
        """Return the facts after checking them, with those of the samples of all processes, and
        targets in the dtype of the logits.

        Raises:
            ValueError: if a shape is wrong, a fact that the estimator needs is missing, or a value
                is out of range.
        """
        everyone = Everyone(layout, gather_distributed)
        similarity = self.similarity
        if estimator.needs_similarity or similarity is not None:
            check_similarity("negative_similarity", similarity, layout)
            if estimator.needs_positive_similarity and not similarity.is_floating_point():
                # the threshold, which is near the positive's similarity, may be a fraction
                similarity = similarity.to(dtype)
        if estimator.needs_positive_similarity or self.positive_similarity is not None:
            checked_shape("positive_similarity", self.positive_similarity, (layout.anchors,))
            check_similarity("positive_similarity", self.positive_similarity)
        if self.same_class is not None:
            checked_shape("same_class", self.same_class, (layout.count, layout.candidates))
        if self.index is not None:
            checked_shape("index", self.index, (layout.count,))
        labels = self.labels
        if labels is not None:
            labels = everyone.of_samples("labels", labels, missing=-1)
        needs_labels = estimator.needs_labels or getattr(rule, "needs_labels", False)
        if needs_labels and self.same_class is None:
            check_labels(labels)
        probability = self.sampling_probability
        if estimator.needs_probability or probability is not None:
            probability = log_of_probability(everyone, probability)
        return replace(
            self,
            class_probability=self._eta_by_anchor(layout, estimator),
            labels=labels,
            similarity=similarity,
            exclude=self._excluded(everyone),
            sampling_probability=probability,
        )

    def of_anchors(
        self, layout: Layout, estimator: AnchorCriterion, anchors: Tensor | None
    ) -> dict[str, Any]:
        """Return the fields of :class:`~trueneg.losses.anchors.Anchors` that the estimator takes
        about some anchors (None: all).
        """
        known: dict[str, Any] = {"bias": self.logit_bias}
        eta: Any = self.class_probability
        if estimator.uses_class_probability:
            has_dimension = isinstance(eta, Tensor) and eta.dim() > 0
            known["class_probability"] = layout.rows(eta, anchors) if has_dimension else eta
        if estimator.needs_labels:
            known["same_class"] = layout.by_column(self.shares_class(layout, anchors))
        if estimator.needs_similarity:
            known["similarity"] = layout.by_column(layout.rows(self.similarity, anchors))
        if estimator.needs_positive_similarity:
            thresholds: Any = self.positive_similarity
            known["threshold"] = layout.rows(thresholds, anchors)
        if estimator.needs_probability:
            of_columns: Any = self.sampling_probability
            own = of_columns[layout.own_columns(anchors)[:, :1]]
            known["log_probability"] = layout.by_column(of_columns - own)
        return known

    def shares_class(self, layout: Layout, anchors: Tensor | None) -> Tensor:
        """Return (a, S) bool, whether a sample shares the class of an anchor."""
        if self.same_class is not None:
            return layout.rows(self.same_class, anchors)
        labels: Any = self.labels
        of_anchors = labels[layout.own_columns(anchors)[:, :1]]
        same_class: Tensor = of_anchors == labels
        if not is_readable(of_anchors) or (of_anchors < 0).any():
            same_class &= of_anchors >= 0
        return same_class

    def _eta_by_anchor(self, layout: Layout, estimator: AnchorCriterion) -> float | Tensor | None:
        """Return η with the values of each anchor or sample in rows."""
        eta = self.class_probability
        own: Any = getattr(estimator, "class_probability", None)
        if eta is None and isinstance(own, Tensor) and own.dim() > 0:
            eta = own  # so that it is split as the anchors are
        if isinstance(eta, Tensor) and eta.dim() > 0:
            size = layout.anchors if eta is own and len(eta) == layout.anchors else layout.count
            eta = checked_shape("class_probability", eta, (size,)).to(layout.device)
        return checked_class_probability(eta)

    def _excluded(self, everyone: "Everyone") -> Tensor | None:
        """Return (B, S), (A, S) or (A, K) bool: the columns that are not negatives."""
        exclude = self.exclude
        layout = everyone.layout
        if exclude is not None:
            check_tensors(exclude=exclude)
            if exclude.dtype != torch.bool:
                raise ValueError(f"exclude is {exclude.dtype}; expected bool.")
            rows = layout.anchors if len(exclude) == layout.anchors else layout.count
            by_column = exclude.shape[-1] == layout.columns
            checked_shape(
                "exclude", exclude, (rows, layout.columns if by_column else layout.candidates)
            )
        if self.same_query is None:
            return exclude
        queries = everyone.of_samples("same_query", self.same_query, missing=-1)
        own = self.same_query[: layout.count, None]
        same = (queries == own) & (own >= 0)
        if exclude is None:
            return same
        return layout.by_column(layout.rows(exclude, None)) | layout.by_column(
            layout.rows(same, layout.all_anchors)
        )


class Everyone(NamedTuple):
    """Gathers facts of the samples of all processes."""

    layout: Layout
    gathers: bool

    def of_samples(self, name: str, values: Tensor, missing: float | None = None) -> Tensor:
        """Return (S,) values of all samples, from (B + H' + Q,) of this process.

        Args:
            name: the fact's name, for messages.
            values: (B + H' + Q,) values.
            missing: value of hard negatives and of the queue if they are left out; None: they must
                not be.

        Raises:
            ValueError: if the shape is wrong.
        """
        check_tensors(**{name: values})
        layout = self.layout
        of_process = layout.count + layout.hard * layout.count // layout.samples
        sizes = of_process + layout.queued, of_process, layout.count
        if missing is not None and values.dim() == 1 and len(values) in sizes:
            values = padded(values, sizes[0] - len(values), missing)
        values = checked_shape(name, values, sizes[:1])
        own, queued = values.split((of_process, layout.queued))
        return torch.cat((gathered_rows(own, layout.count, self.gathers)[0], queued))


def padded(values: Tensor, number: int, missing: float) -> Tensor:
    """Return values and a number of missing ones; all as int64, unless they are floating-point:
    bool and uint8 cannot hold −1.
    """
    values = values if values.is_floating_point() else values.long()
    return functional.pad(values, (0, number), value=missing)


def check_similarity(name: str, similarity: Tensor | None, layout: Layout | None = None) -> None:
    """Check the shape of a known similarity and, on a CPU, that it has no NaN where it is used.

    Args:
        name: its name, for messages.
        similarity: values, (A,), (A, S) or (A, K).
        layout: of the similarity's rows and columns; NaN is allowed in the columns of each anchor's
            own sample. None: every value is used.

    Raises:
        ValueError: if it is missing, its shape is wrong, or it contains NaN. On an accelerator,
            values are not read.
    """
    if similarity is None:
        raise ValueError(f"{name} is missing; the estimator needs it.")
    check_tensors(**{name: similarity})
    if layout is not None and similarity.shape != (layout.anchors, layout.columns):
        checked_shape(name, similarity, (layout.anchors, layout.candidates))
    # the sum takes a twentieth of the time
    if not is_readable(similarity) or not similarity.sum().isnan():
        return
    wrong = similarity.isnan()
    if layout is not None:
        # with one column per sample, all views share it
        own = layout.own_columns(None)
        wrong.scatter_(1, own if wrong.shape[1] == layout.columns else own[:, :1], False)
    if wrong.any():
        raise ValueError(f"{name} contains NaN; expected numbers.")


def check_labels(labels: Tensor | None) -> None:
    """Check that labels are there; those of a batch may all be unknown.

    Raises:
        ValueError: if they are missing.
    """
    if labels is None:
        raise ValueError("labels is missing; the estimator needs the class of each sample.")


def log_of_probability(everyone: Everyone, probability: Tensor | None) -> Tensor:
    """Return (S,) logarithms of the probabilities with which the samples are drawn.

    Raises:
        ValueError: if they are missing, or one is not positive.
    """
    if probability is None:
        raise ValueError("sampling_probability is missing; the estimator needs it.")
    check_tensors(sampling_probability=probability)
    if is_readable(probability) and not (probability > 0).all():
        raise ValueError("sampling_probability is not above 0 everywhere; expected such numbers.")
    return everyone.of_samples("sampling_probability", probability).log()


def checked_targets(targets: Tensor, layout: Layout) -> Tensor:
    """Return soft targets, (B, S) or (A, S), without their gradient, after checking them; rows sum
    to 1. Those in half precision, whose sums are off by rounding, are normalised in float32.

    Raises:
        ValueError: if the shape is wrong, a target is negative, or a row does not sum to 1 within
            1e-4 or, in half precision, the dtype's epsilon; on an accelerator, such a row becomes
            NaN.
    """
    check_tensors(targets=targets)
    rows = layout.anchors if len(targets) == layout.anchors else layout.count
    targets = checked_shape("targets", targets, (rows, layout.candidates)).detach()
    is_half = targets.dtype in (torch.float16, torch.bfloat16)
    tolerance = torch.finfo(targets.dtype).eps if is_half else TOLERANCE
    targets = targets.float() if is_half else targets
    sums = targets.sum(1)
    is_right = ((sums - 1).abs() <= tolerance) & (targets >= 0).all(1)
    wrong = ~is_right  # NaN is wrong, too
    if is_readable(targets) and wrong.any():
        row = int(wrong.nonzero()[0])
        if (targets[row] < 0).any():
            raise ValueError(
                f"targets: row {row} contains {targets[row].min():g}; expected numbers of at least"
                " 0."
            )
        raise ValueError(
            f"targets: row {row} sums to {sums[row]:g}; expected 1 (within {tolerance:g}) in every"
            " row."
        )
    if is_half:
        targets = targets / sums[:, None]
    return targets if is_readable(targets) else targets.masked_fill(wrong[:, None], math.nan)
