"""Linear probe of text studies: logistic regression on the vectors of the training texts."""

from collections.abc import Iterator, Sequence

from sklearn.linear_model import LogisticRegression

from trueneg.evaluation.texts import EmbeddedTexts, Measured
from trueneg.evaluation.texts.knn import classified, labelled_parts
from trueneg.specs.sections import Section


def measure(runs: Sequence[EmbeddedTexts], settings: Section) -> Iterator[Measured]:
    """Yield the accuracies of the probe of each run, split and part of the labels."""
    for part in labelled_parts(runs):
        probe = LogisticRegression(C=settings["linear_probe"]["C"], max_iter=1000)
        yield from classified(*part, task="linear probe", classifier=probe)
