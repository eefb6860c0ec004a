"""Declarations of evaluation tasks, separate from their code: settings, metrics and how metrics are
displayed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from trueneg.specs.settings import Settings
from trueneg.stats.measurement import Measurement

SPLITS = ("validation", "test")
# groups of classes, and the mean over classes; no class has one of these names
GROUPS = ("common", "rare", "macro")
EACH_CLASS = "the name of a class"  # stands for a class name, which is only known from the data


class DisplayedMetric(NamedTuple):
    """Display format and direction of a metric; if ``higher_is_better`` is None, it is only
    reported, never compared.
    """

    name: str
    scale: float = 1.0
    unit: str = ""
    unit_of_differences: str = ""
    decimals: int = 1
    higher_is_better: bool | None = True


class Task(Settings):
    """Settings of an evaluation task: a section of a study's ``evaluation`` if the task has any
    settings.

    Attributes:
        ROWS: names of the task in the rows; a primary contrast may refer to them.
        OPTIONAL: description of the section that enables the task; None: the task is always
            measured.
        NEEDS: what the data must provide: a key of
            :attr:`trueneg.specs.kinds.pairs.ImageTextStudy.provided`.
        METRICS: display formats and directions of its metrics; other metrics are plain numbers, and
            larger is better.
        CHANCE: chance level by metric, where known.
        BY_SAMPLE: names in the rows whose measurements, except those of single classes and means
            over directions, are means over held-out samples
            (:class:`trueneg.evaluation.per_sample.PerSample`).
    """

    ROWS: ClassVar[tuple[str, ...]]
    OPTIONAL: ClassVar[str | None] = None
    NEEDS: ClassVar[str | None] = None
    METRICS: ClassVar[Mapping[str, DisplayedMetric]] = {}
    CHANCE: ClassVar[Mapping[str, float]] = {}
    BY_SAMPLE: ClassVar[tuple[str, ...]] = ()

    def rows(self, study: Any) -> Iterator[Measurement]:
        """Yield the measurements that a study's rows contain if its data provide what the task
        needs.
        """
        for name in self.ROWS:
            yield from (Measurement(name, metric) for metric in self.METRICS)

    def splits(self, study: Any, measured: Measurement) -> tuple[str, ...]:
        """Return the splits on which a measurement of the task is made."""
        return SPLITS

    def chance(self, measured: Measurement) -> float | Mapping[Measurement, str] | None:
        """Return the chance level of a measurement of this task; None: unknown.

        If it depends on the data, return the measurements that may hold it, each with a few words
        on what it is, which may be empty; the first one that the rows contain counts.
        """
        return self.CHANCE.get(measured.metric)


def by_class(measured: Measurement, *groups: str) -> Iterator[Measurement]:
    """Yield a measurement over all classes, then the same one for each group of classes."""
    yield measured
    yield from (measured._replace(group=group) for group in groups)


def percent(name: str) -> DisplayedMetric:
    """Return the display format of a share, in percent."""
    return DisplayedMetric(name, 100.0, "%", "points")


ACCURACY = {"accuracy": percent("accuracy")}
AUC = {"AUC": DisplayedMetric("AUC", decimals=3)}
RECALL = {
    "R": percent("mean recall"),
    "MedR": DisplayedMetric("median rank", unit_of_differences="ranks", higher_is_better=False),
}
CHANCE = {"chance": DisplayedMetric("chance", higher_is_better=None)}
PRECISION = {"Prec": percent("mean precision")}
