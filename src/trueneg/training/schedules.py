"""Schedules of settings as functions of the completed fraction of a run."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def learning_rate_factor(schedule: str, progress: float) -> float:
    """Return the factor applied to the learning rate.

    Args:
        schedule: ``"constant"``, or ``"cosine"``, which decays from 1 to 0 along half a cosine.
        progress: completed fraction of the run's updates, in [0, 1].
    """
    if schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * progress))


def scheduled_value(setting: Mapping[str, Any], progress: float) -> float:
    """Return the value of a scheduled parameter of an objective.

    Args:
        setting: ``{"schedule": "warm-start", "before", "after", "at"}``, or ``{"schedule":
            "linear", "start", "end", "every"}``, which goes from ``start`` to ``end`` in steps that
            each last a fraction ``every`` of the run.
        progress: completed fraction of the run, in [0, 1).

    Example:
        >>> warm_start = {"schedule": "warm-start", "before": 0.5, "after": 0.7, "at": 0.75}
        >>> scheduled_value(warm_start, 0.74), scheduled_value(warm_start, 0.75)
        (0.5, 0.7)
        >>> scheduled_value({"schedule": "linear", "start": 2.0, "end": 0.0, "every": 0.25}, 0.6)
        1.0
    """
    if setting["schedule"] == "warm-start":
        return setting["before"] if progress < setting["at"] else setting["after"]
    done = interval_of(setting, progress) * setting["every"]
    return setting["start"] + (setting["end"] - setting["start"]) * done


def interval_of(setting: Mapping[str, Any], progress: float) -> int:
    """Return the 0-based index of the interval of length ``every`` that contains a point of the
    run.
    """
    # 0.3 / 0.1 is slightly less than 3 in floating point
    return math.floor(progress / setting["every"] + 1e-9)


def location_of(auc: float, link: str) -> float:
    """Return BCL's α for a macro-AUC: the AUC itself (link ``"auc"``: Eq. 15), or the α under which
    a true negative is farther than a false one that often (``"model"``: Eqs. 13 and 14).

    Example:
        >>> location_of(0.75, "auc"), location_of(0.75, "model")
        (0.75, 0.875)
    """
    return auc if link == "auc" else 0.5 + 1.5 * (auc - 0.5)


def macro_auc(embeddings: Tensor, groups: Tensor) -> float:
    r"""Estimate how often an anchor is nearer to its own group than to another (Liu and Wang, 2023,
    Eq. 15).

    .. math::

        \frac{1}{|D|} \sum_a \frac{\#\{(i, j): s(a, i) > s(a, j)\} + \frac12 \#\{s(a, i) =
        s(a, j)\}}{n_a^+ n_a^-}

    where i runs over the anchor's group without the anchor itself, j over all other groups, and s
    is the cosine.

    Args:
        embeddings: (n, D) embeddings from at least two groups.
        groups: (n,) integers, the classes.

    Returns:
        A value in [0, 1]; NaN if no anchor has samples both in its own group and in other groups.
    """
    directions = functional.normalize(embeddings, dim=1)
    similarities = directions @ directions.T
    same_group = groups[:, None] == groups[None, :]
    itself = torch.eye(len(groups), dtype=torch.bool, device=groups.device)
    areas = []
    for row, group, near in zip(similarities, same_group, same_group & ~itself, strict=True):
        same = row[near]
        other = row[~group].sort().values
        if len(same) and len(other):
            # Each member of the group counts the others below it, and half of those tied with it.
            below = torch.searchsorted(other, same, side="left") + torch.searchsorted(
                other, same, side="right"
            )
            areas.append(float(below.double().mean() / (2 * len(other))))
    return sum(areas) / len(areas) if areas else math.nan
