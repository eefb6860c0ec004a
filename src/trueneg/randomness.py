"""Separate seeds per purpose, so that all objectives with the same study seed share every draw
(common random numbers).
"""

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch


def seed_for(seed: int, purpose: str) -> int:
    """Derive a 63-bit seed for one purpose from a study seed; the result is the same on every
    machine.

    Args:
        seed: the study's seed.
        purpose: name of the draw, such as ``"subset"``, ``"weights"``, ``"batches"`` or
            ``"augmentation"``.

    Example:
        >>> (
        ...     seed_for(0, "subset") == seed_for(0, "subset"),
        ...     seed_for(0, "subset") == seed_for(0, "batches"),
        ... )
        (True, False)
    """
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def rng_for(seed: int, purpose: str) -> "np.random.Generator":
    """Return a NumPy generator for one purpose; see :func:`seed_for`."""
    import numpy as np  # imported here, because the losses do not need it

    return np.random.default_rng(seed_for(seed, purpose))


def generator_of(seed: int) -> "torch.Generator":
    """Return a CPU generator with the given seed; its draws do not depend on the device that uses
    them.
    """
    import torch  # imported here, because jobs that draw with NumPy do not need it

    return torch.Generator().manual_seed(seed)
