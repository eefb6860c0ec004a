"""The latent classes of the phantom: finding × side × zone × severity, with a known Zipf distribution.

Both text and images of the phantom are generated from these classes: a radiograph shows the findings of its report.
"""

import functools
import itertools
from dataclasses import dataclass

import numpy as np

from trueneg.randomness import seed_for


@dataclass(frozen=True)
class Finding:
    """A type of finding, with its possible locations and severities.

    Attributes:
        name: name of the finding.
        sides: sides of the chest; ``""`` if the finding has no side.
        zones: zones of the lung; ``""`` if the finding has no zone.
        severities: severities in increasing order.
        chexpert: whether the finding is one of the five CheXpert labels classified in the papers (CheX5).
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

LARGEST_SHARE = 0.5  # maximum share of a finding among all findings
DRAWS = 1000  # maximum number of rank draws to find one that meets this limit


@dataclass(frozen=True)
class PhantomClass:
    """A fine-grained class.

    Attributes:
        number: index in :func:`phantom_classes`.
        finding: name of the finding.
        side: ``left``, ``right``, ``bilateral`` or ``""``.
        zone: ``upper``, ``middle``, ``lower`` or ``""``.
        severity: severity of the finding.
        probability: ρ(c), the probability among findings present; sums to 1 over the classes.
    """

    number: int
    finding: str
    side: str
    zone: str
    severity: str
    probability: float


@functools.cache
def phantom_classes(exponent: float = 1.0, seed: int = 0) -> tuple[PhantomClass, ...]:
    r"""Return all fine-grained classes, with :math:`\rho(c) \propto \mathrm{rank}(c)^{-s}`.

    The ranks are drawn from the seed such that no finding has more than half of the probability, so that two findings of a report
    can be drawn with exactly these probabilities.

    Args:
        exponent: exponent s of Zipf's law; 0 gives a uniform distribution.
        seed: seed of the ranks.

    Raises:
        ValueError: if the exponent is so large that one class has more than half of the probability.

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
