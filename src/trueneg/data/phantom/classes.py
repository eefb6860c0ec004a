"""The latent classes of the phantom: finding × side × zone × severity, with a Zipf distribution that is known.

Text and pixels of the phantom both come from here: a report's findings are what its radiograph shows.
"""

import functools
import itertools
from dataclasses import dataclass

import numpy as np

from trueneg.randomness import seed_for


@dataclass(frozen=True)
class Finding:
    """A kind of finding, and the places and degrees in which it is drawn.

    Attributes:
        name: the heading.
        sides: of the chest; ``""`` where it has none.
        zones: of the lung; ``""`` where it has none.
        severities: from slight to marked.
        chexpert: whether it is one of the five CheXpert labels that the papers classify (CheX5).
    """

    name: str
    sides: tuple[str, ...]
    zones: tuple[str, ...]
    severities: tuple[str, ...]
    chexpert: bool = False


FINDINGS = (
    Finding("cardiomegaly", ("",), ("",), ("mild", "moderate", "severe"), chexpert=True),
    Finding("edema", ("bilateral",), ("",), ("mild", "moderate", "severe"), chexpert=True),
    Finding("effusion", ("left", "right", "bilateral"), ("lower",), ("small", "moderate", "large"), chexpert=True),
    Finding("pneumonia", ("left", "right"), ("upper", "middle", "lower"), ("mild", "severe"), chexpert=True),
    Finding("pneumothorax", ("left", "right"), ("upper",), ("small", "large"), chexpert=True),
    Finding("atelectasis", ("left", "right", "bilateral"), ("lower",), ("mild", "moderate")),
    Finding("nodule", ("left", "right"), ("upper", "middle", "lower"), ("small",)),
    Finding("granuloma", ("left", "right"), ("upper", "lower"), ("small",)),
    Finding("rib fracture", ("left", "right"), ("middle",), ("mild", "severe")),
)

LARGEST_SHARE = 0.5  # of a finding among all
DRAWS = 1000  # of ranks, until none has more


@dataclass(frozen=True)
class PhantomClass:
    """One fine class.

    Attributes:
        number: its place in :func:`phantom_classes`.
        finding: heading of the finding.
        side: ``left``, ``right``, ``bilateral`` or ``""``.
        zone: ``upper``, ``middle``, ``lower`` or ``""``.
        severity: degree.
        probability: ρ(c) among the findings that are present; they sum to 1.
    """

    number: int
    finding: str
    side: str
    zone: str
    severity: str
    probability: float


@functools.cache
def phantom_classes(exponent: float = 1.0, seed: int = 0) -> tuple[PhantomClass, ...]:
    r"""All fine classes, with :math:`\rho(c) \propto \mathrm{rank}(c)^{-s}`.

    Which class has which rank is drawn from the seed, in such a way that no finding holds more than half of the probability
    (so two findings of one report can be drawn with exactly these probabilities).

    Args:
        exponent: s of Zipf's law; 0: uniform.
        seed: of the ranks.

    Raises:
        ValueError: if the exponent is so large that one class holds more than half.

    Example:
        >>> classes = phantom_classes()
        >>> len(classes), round(sum(one.probability for one in classes), 9), max(classes, key=lambda one: one.probability).finding
        (51, 1.0, 'pneumothorax')
    """
    attributes = [
        (finding, *place) for finding in FINDINGS for place in itertools.product(finding.sides, finding.zones, finding.severities)
    ]
    probability = np.arange(1, len(attributes) + 1) ** -float(exponent)
    probability /= probability.sum()
    generator = np.random.default_rng(seed_for(seed, "phantom ranks"))
    owners = np.array([FINDINGS.index(finding) for finding, *_ in attributes])
    for _ in range(DRAWS):
        ranks = generator.permutation(len(attributes))
        if np.bincount(owners, probability[ranks]).max() <= LARGEST_SHARE:
            break
    else:
        raise ValueError(f"exponent is {exponent}: one finding would have more than half of the probability; take a smaller one.")
    return tuple(
        PhantomClass(number, finding.name, side, zone, severity, float(probability[ranks[number]]))
        for number, (finding, side, zone, severity) in enumerate(attributes)
    )
