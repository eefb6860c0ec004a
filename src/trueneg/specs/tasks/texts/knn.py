"""The nearest-neighbour vote."""

from trueneg.specs.settings import Count
from trueneg.specs.tasks.texts import LabelTask


class TextNeighbourSettings(LabelTask):
    """Vote of the k nearest training texts by cosine similarity, one vote each."""

    ROWS = BY_SAMPLE = ("knn",)

    neighbours: Count = 5
    """k; at most the number of training texts of the smallest label"""


TASK = TextNeighbourSettings
