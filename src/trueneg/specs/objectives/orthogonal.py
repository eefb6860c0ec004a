"""OC: drive negatives towards orthogonality."""

from typing import Literal

from trueneg.specs.objectives.relaxed import Relaxed


class Orthogonal(Relaxed):
    """OC: like ReCo, but drives every similarity to zero."""

    name: Literal["oc"]  # type: ignore[assignment]  # pydantic selects the objective by this name


PAIRS = Orthogonal
