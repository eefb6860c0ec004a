"""One generator for each purpose, so that all objectives of a seed share every draw (common random numbers)."""

import hashlib


def seed_for(seed: int, purpose: str) -> int:
    """A 63-bit seed for one purpose of one study seed; the same on every machine.

    Args:
        seed: the study's seed.
        purpose: what is drawn, such as ``"subset"``, ``"weights"``, ``"batches"`` or ``"augmentation"``.

    Example:
        >>> seed_for(0, "subset") == seed_for(0, "subset"), seed_for(0, "subset") == seed_for(0, "batches")
        (True, False)
    """
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
