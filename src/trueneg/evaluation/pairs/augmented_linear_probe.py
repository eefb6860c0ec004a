"""Linear probe on augmented images: the same training as fine-tuning, with the encoder frozen."""

from collections.abc import Iterator, Sequence

from trueneg.evaluation.pairs import EmbeddedPairs, Measured
from trueneg.evaluation.pairs.fine_tuning import fine_tuned
from trueneg.specs.sections import Section


def measure(runs: Sequence[EmbeddedPairs], settings: Section) -> Iterator[Measured]:
    """Yield areas under the ROC curve of linear classifiers."""
    return fine_tuned(
        runs, "augmented linear probe", settings["augmented_linear_probe"], frozen=True
    )
