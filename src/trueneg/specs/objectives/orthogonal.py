"""OC: negatives must be orthogonal."""

from typing import Literal

from trueneg.specs.objectives.relaxed import Relaxed


class Orthogonal(Relaxed):
    """OC: as ReCo, with every similarity drawn to zero."""

    name: Literal["oc"]  # type: ignore[assignment]  # the objectives are told apart by their names


PAIRS = Orthogonal
