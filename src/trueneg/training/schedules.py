"""How a setting changes over a run, in fractions of the run."""

import math


def learning_rate_factor(schedule: str, progress: float) -> float:
    """What the learning rate is multiplied with.

    Args:
        schedule: ``"constant"``, or ``"cosine"``: from 1 down to 0 along half a cosine.
        progress: share of the run's updates that are done, in [0, 1].
    """
    if schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * progress))
