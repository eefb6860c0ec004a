"""Oracle: sum over the known true negatives only; with options that make it a control."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trueneg.losses.anchors import Anchors, NegativeMass
from trueneg.losses.base import Selecting


@dataclass(repr=False)
class Oracle(Selecting):
    r"""Sum over the known true negatives only; this shows how much could be gained, but is not a
    usable method.

    .. math:: N g = \sum_{n \in \mathrm{TN}} e^{u_n}

    An anchor without true negatives has zero mass, so its loss and gradient are 0. The arguments
    turn it into a control that removes false negatives with errors, which it draws from torch's
    default RNG at each call.

    Args:
        rescaled: multiply the mass by N / (number of negatives left), so that removal does not
            change its scale.
        precision: in (0, 1]; true negatives are also removed, at random, so that this share of the
            removed negatives is false in expectation (or until none are left).
        recall: in [0, 1]; each false negative is removed with this probability.

    Raises:
        ValueError: if precision or recall is out of range.

    Example:
        >>> same_class = torch.tensor([[True, False, False]])
        >>> Oracle()(
        ...     torch.zeros(1), torch.zeros(1, 3), same_class=same_class
        ... ).exp().round().tolist()
        [2.0]
        >>> Oracle(rescaled=True)(
        ...     torch.zeros(1), torch.zeros(1, 3), same_class=same_class
        ... ).exp().round().tolist()
        [3.0]
    """

    name = "oracle"
    needs_labels = True
    marks = True
    rescaled: bool = False
    precision: float = 1.0
    recall: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not 0 < self.precision <= 1:
            raise ValueError(
                f"precision is {self.precision}; expected a number above 0 and at most 1."
            )
        if not 0 <= self.recall <= 1:
            raise ValueError(f"recall is {self.recall}; expected a number from 0 to 1.")

    def marked(self, anchors: Anchors) -> Tensor:
        same_class = anchors.required("same_class")
        # Placebos draw even if all are removed, as they did in published runs.
        if self.precision == self.recall == 1 and not (self.shuffled or self.nearest):
            return same_class
        valid = anchors.is_negative
        false = same_class & valid
        true = ~same_class & valid
        # how many true negatives to remove, in expectation
        wrong = false.sum(-1) * self.recall * (1 / self.precision - 1)
        chance = torch.where(false, self.recall, (wrong / true.sum(-1).clamp(min=1))[:, None])
        return valid & (torch.rand(chance.shape, device=chance.device) < chance)

    def mass(self, anchors: Anchors) -> NegativeMass:
        mass = super().mass(anchors)
        if not self.rescaled or mass.removed is None:
            return mass
        left = (~mass.removed & anchors.is_negative).sum(-1).clamp(min=1)
        return mass._replace(log=mass.log + anchors.log_count - left.to(mass.log.dtype).log())
