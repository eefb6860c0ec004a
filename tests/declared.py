"""The measurements that evaluation tasks declare, and those in rows."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from trueneg.specs.tasks import measured_by
from trueneg.specs.tasks.base import EACH_CLASS
from trueneg.stats.measurement import Measurement, measurements


def declared(study: Any) -> set[tuple[str, Measurement]]:
    """Return every measurement that a study's tasks declare, with its split."""
    return {
        (split, one)
        for one, task in measured_by(study).items()
        for split in task.splits(study, one)
    }


def written(rows: pd.DataFrame, study: Any) -> set[tuple[str, Measurement]]:
    """Return every measurement in the rows, with its split; undeclared class names stand for any
    class.
    """
    known = measured_by(study)
    found = {(split, one) for split, own in rows.groupby("split") for one in measurements(own)}
    return {
        (split, one if one in known or one.group is None else one._replace(group=EACH_CLASS))
        for split, one in found
    }


def declared_means(measured: Iterable[Measurement]) -> list[Measurement]:
    """Add the means over directions and over list lengths, which tables show beside the rows."""
    found = list(measured)
    at_k = [one for one in found if one.k is not None and one.group is None]
    return [
        *found,
        *(one._replace(direction=None) for one in at_k),
        *(one._replace(k=None) for one in at_k),
    ]
