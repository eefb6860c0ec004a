"""Tasks that evaluate encoders of texts."""

from collections.abc import Iterator
from typing import Any

from trueneg.specs.tasks.base import ACCURACY, CHANCE, SPLITS, Task, by_class
from trueneg.stats.measurement import Measurement


class TextTask(Task):
    """A task on held-out texts, separate for labels that the run is trained on (``seen``) and
    labels of no run (``unseen``).
    """

    NEEDS = "labels"

    def rows(self, study: Any) -> Iterator[Measurement]:
        measured = (
            Measurement(self.ROWS[0], metric, labels)
            for metric in self.METRICS
            for labels in ("seen", "unseen")
        )
        yield from (each for each in measured if self.splits(study, each))

    def splits(self, study: Any, measured: Measurement) -> tuple[str, ...]:
        """Return the splits; validation and test have unseen labels of their own, and either may
        have none.
        """
        sets = study.dataset.labels
        always = measured.labels != "unseen"
        return tuple(
            split
            for split in SPLITS
            if always or (sets is not None and getattr(sets, f"{split}_unseen"))
        )

    def chance(self, measured: Measurement) -> dict[Measurement, str] | None:
        """Return the rows with the chance level: always the largest label, a random label, or a
        random order.
        """
        what = {
            "accuracy": "1 / labels" if measured.group else "the share of the largest label",
            "R": "a random order",
            "MAP": "a random order",
        }
        return (
            {measured._replace(metric="chance"): what[measured.metric]}
            if measured.metric in what
            else None
        )


class LabelTask(TextTask):
    """Classification of texts by label."""

    METRICS = ACCURACY | CHANCE

    def rows(self, study: Any) -> Iterator[Measurement]:
        for measured in super().rows(study):
            yield from by_class(measured, "macro")
