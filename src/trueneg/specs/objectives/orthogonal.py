"""OC: push negatives towards orthogonality."""

from typing import Literal

from trueneg.specs.objectives.relaxed import Relaxed


class Orthogonal(Relaxed):
    """OC: like ReCo, but drives every similarity to zero."""

    name: Literal["oc"]  # type: ignore[assignment]  # the objectives are told apart by their names


PAIRS = Orthogonal
