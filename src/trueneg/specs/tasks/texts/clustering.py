"""The agreement of clusters with labels."""

from typing import ClassVar

from trueneg.specs.tasks.base import DisplayedMetric
from trueneg.specs.tasks.texts import TextTask


class Clustering(TextTask):
    """V-measure of k-means with as many clusters as labels; not adjusted for chance."""

    ROWS = ("clustering",)
    METRICS: ClassVar = {"V-measure": DisplayedMetric("V-measure", decimals=3)}


TASK = Clustering
