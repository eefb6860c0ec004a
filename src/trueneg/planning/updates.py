"""The number of updates of a run."""

from trueneg.errors import UserError
from trueneg.specs.sections import Section


def planned_updates(training: Section, available: int, seed: int) -> tuple[int, int]:
    """Return the number of updates of an epoch and of a run.

    Args:
        training: settings of the section ``training``.
        available: number of samples per epoch: images or, in training on pairs, pairs.
        seed: the run's seed, for messages.

    Raises:
        UserError: if there are fewer samples than the batch size, or no updates after the warm-up.

    Example:
        >>> planned_updates(
        ...     {"batch_size": 64, "updates": None, "epochs": 10, "warmup_updates": 20},
        ...     1000,
        ...     seed=0,
        ... )
        (15, 150)
    """
    size = training["batch_size"]
    warmup = training.get("warmup_updates", 0)
    unit = training.get("unit")
    per_epoch = available // size
    if per_epoch == 0:
        content = f"an epoch of seed {seed} has {available} pairs (training.unit: {unit})"
        where = content if unit else f"the subset of seed {seed} contains {available} samples"
        raise UserError(f"training.batch_size is {size}, but {where}; lower it, or use more data.")
    updates = training["updates"] or training["epochs"] * per_epoch
    if warmup >= updates:
        raise UserError(
            f"training.warmup_updates is {warmup}, but the run has {updates} updates; lower it."
        )
    return per_epoch, updates
