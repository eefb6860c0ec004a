"""The latent classes of the phantom, with a known Zipf distribution over the classes of findings.

``classes.csv`` lists all classes; the number of a class is its row. A class is a finding with its
side, zone and severity (*positive*), the denial of a finding (*negated*), or a sentence that
mentions no finding (*filler*). Both text and images of the phantom are generated from these
classes: a radiograph shows the findings of its report.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy import ndarray

from trueneg.randomness import rng_for

POSITIVE = "positive"
NEGATED = "negated"
FILLER = "filler"
TABLE = pd.read_csv(
    Path(__file__).with_suffix(".csv"), keep_default_na=False, na_values={"extent": ""}
)
# index of each positive class's finding
OWNERS, FINDINGS = pd.factorize(TABLE.loc[TABLE["kind"] == POSITIVE, "finding"])
LARGEST_SHARE = 0.5  # maximum probability of one finding among all findings
DRAWS = 1000  # maximum number of attempts to draw ranks that meet this limit


class PhantomClass(NamedTuple):
    """A positive class.

    Attributes:
        number: its row in :data:`TABLE`.
        finding: name of the finding.
        side: ``left``, ``right``, ``bilateral`` or ``""``.
        zone: ``upper``, ``middle``, ``lower`` or ``""``.
        severity: severity of the finding.
        extent: number that sets the severity: a density, or a size as
            :mod:`trueneg.data.phantom.findings` defines it.
    """

    number: int
    finding: str
    side: str
    zone: str
    severity: str
    extent: float

    @property
    def name(self) -> str:
        """The name of the class, such as ``small left upper pneumothorax``."""
        return " ".join(
            word for word in (self.severity, self.side, self.zone, self.finding) if word
        )

    @property
    def sides(self) -> tuple[str, ...]:
        """The sides of the chest that the finding affects, or ``("",)`` for the heart."""
        return ("right", "left") if self.side == "bilateral" else (self.side,)


CLASSES = tuple(
    PhantomClass(*row) for row in TABLE[TABLE["kind"] == POSITIVE].drop(columns="kind").itertuples()
)


def class_probability(exponent: float = 1.0, seed: int = 0) -> ndarray:
    r"""Draw the probability of each positive class among the findings, with :math:`\rho(c) \propto
    \mathrm{rank}(c)^{-s}`.

    The ranks are drawn from the seed such that no finding has more than half of the probability, so
    that two findings of a report can be drawn with exactly these probabilities.

    Args:
        exponent: exponent s of Zipf's law; 0 gives a uniform distribution.
        seed: seed of the ranks.

    Returns:
        (C,) probabilities in the order of :data:`CLASSES`, which sum to 1.

    Raises:
        ValueError: if the exponent is so large that one finding has more than half of the
            probability.

    Example:
        >>> probability = class_probability()
        >>> len(probability), float(probability.sum().round(9)), CLASSES[probability.argmax()].name
        (51, 1.0, 'small left upper pneumothorax')
    """
    zipf = np.arange(1, len(CLASSES) + 1) ** -float(exponent)
    zipf /= zipf.sum()
    generator = rng_for(seed, "phantom ranks")
    for _ in range(DRAWS):
        probability = zipf[generator.permutation(len(CLASSES))]
        if np.bincount(OWNERS, probability).max() <= LARGEST_SHARE:
            return probability
    raise ValueError(
        f"exponent is {exponent}: one finding would have more than half of the probability; use a"
        " smaller exponent."
    )
