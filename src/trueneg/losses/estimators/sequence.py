"""Several corrections of the same negatives, one after the other."""

from collections.abc import Iterable
from typing import Any

import torch

from trueneg.losses.anchors import Anchors, NegativeMass, mass_without
from trueneg.losses.base import Estimator, Selecting, checked_estimator

REQUIRED = ("needs_labels", "needs_similarity", "needs_positive_similarity", "needs_probability")
USED = ("uses_class_probability", "uses_extra_positives", "compares_samples", "marks")


class Sequence(Estimator):
    r"""Leave out what masks mark, then apply another estimator to the remaining negatives.

    .. math:: N g = N' g' \text{ of the negatives that no mask marks}

    N is the number of remaining negatives. Each mask sees all negatives, and each part has its own
    ``scope``.

    Args:
        estimators: any number of masks (:class:`Guided`, :class:`Oracle`, :class:`Quantile`,
            :class:`Removed`), then one estimator of any kind.

    Raises:
        ValueError: if there are fewer than two, or one before the last is no mask.

    Example:
        >>> from trueneg.losses import HardnessWeighted, Oracle
        >>> both = Sequence([Oracle(), HardnessWeighted(alpha=1.0)])
        >>> mass = both(
        ...     torch.zeros(1),
        ...     torch.tensor([[1.0, 0.0]]),
        ...     temperature=1.0,
        ...     same_class=torch.tensor([[True, False]]),
        ... )
        >>> mass.exp().item()  # the second negative alone: its cosine is 0, and its weight 1
        1.0
    """

    def __init__(self, estimators: Iterable[Estimator]):
        super().__init__()
        if not isinstance(estimators, Iterable):
            raise ValueError(f"estimators is {estimators}; expected a list of estimators.")
        parts: list[Any] = [checked_estimator(each) for each in estimators]
        if len(parts) < 2:
            raise ValueError(f"estimators has {len(parts)} parts; expected masks, then another.")
        *self.masks, self.last = parts
        if wrong := [each for each in self.masks if not isinstance(each, Selecting)]:
            raise ValueError(
                f"{wrong[0]} removes no negatives, so that it must be the last of a Sequence."
            )
        refused = [
            each
            for each in parts
            if not isinstance(each, Estimator) or each.keeps_average or each.keeps_threshold
        ]
        if refused:
            raise ValueError(
                f"{refused[0]} cannot be part of a Sequence; expected estimators that remember no"
                " samples (GlobalMass has the option filtered)."
            )
        self.class_probability = getattr(self.last, "class_probability", None)
        for name in REQUIRED + USED:
            setattr(self, name, any(getattr(each, name) for each in parts))

    def __repr__(self) -> str:
        return f"Sequence({[*self.masks, self.last]})"

    def mass(self, anchors: Anchors) -> NegativeMass:
        marked = torch.zeros_like(anchors.negatives, dtype=torch.bool)
        for mask in self.masks:
            removed = mask.estimate(anchors).removed
            if removed is not None:
                marked = marked | removed.bool()
        found = mass_without(self.last.estimate, anchors, marked)
        removed = (
            marked
            if found.removed is None
            else torch.maximum(marked.to(found.removed), found.removed)
        )
        return found._replace(removed=removed)
