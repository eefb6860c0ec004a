"""The typed model of a theory study: the stochastic process of the BCL paper and the experiments on
it.
"""

from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from trueneg.specs.experiments import EXPERIMENTS
from trueneg.specs.kinds.experiments import ExperimentStudy
from trueneg.specs.sections import Section
from trueneg.specs.settings import (
    Count,
    Fraction,
    NonEmpty,
    OpenFraction,
    Positive,
    Probability,
    Real,
    Seed,
    Settings,
)

Alpha = Annotated[Real, Field(ge=0.5, le=1)]
Slide = Annotated[Real, Field(ge=0, le=1)]
LOWEST_RELEASED_TEMPERATURE = 0.15  # for the process of the simulation code of BCL's authors


class ProcessSettings(Settings):
    """Process parameters that an experiment does not vary; the defaults follow the simulations of
    the BCL paper.
    """

    alpha: Alpha = 0.9
    """α: share of the true negatives that are the farther of two draws of the base, and of the
    false ones that are the nearer
    """
    class_probability: Probability = 0.1
    """τ⁺: probability that a negative is false (not stated in the paper)"""
    slide: Slide = 0.1
    """maximum shift of the base interval of an anchor"""
    temperature: Positive = 0.5
    """t: logits are scores divided by t"""
    anchors: Count = 1000
    """anchors per repetition"""
    negatives: Count = 64
    """N: negatives per anchor"""
    positives: Count = 10
    """K: positives per anchor, for DCL"""
    seed: Seed = 0
    """seed of all random draws"""


class SweepSettings(Settings):
    """Parameter values that the experiments sweep; each description names the experiment."""

    alphas: NonEmpty[Alpha] = Field([0.5, 0.6, 0.7, 0.8, 0.9, 0.99])
    """errors against α"""
    class_probabilities: NonEmpty[Probability] = Field([0.02, 0.05, 0.1, 0.2, 0.3, 0.5])
    """errors against τ⁺"""
    negative_counts: NonEmpty[Count] = Field([16, 32, 64, 128, 256, 512])
    """errors against N"""
    long_negative_counts: NonEmpty[Count] = Field([16, 64, 256, 1024, 4096])
    """bias, which should vanish, against N"""
    anchor_counts: NonEmpty[Count] = Field([50, 100, 200, 500, 1000, 2000])
    """errors against the number of anchors"""
    positive_counts: NonEmpty[Count] = Field([1, 2, 5, 10, 32, 64, 256])
    """errors against K"""
    slides: list[Slide] = Field([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    """errors against the slide"""
    temperatures: NonEmpty[Positive] = Field([0.1, 0.2, 0.3, 0.5, 0.7, 1.0])
    """errors against t"""
    released_temperatures: NonEmpty[Annotated[Real, Field(ge=LOWEST_RELEASED_TEMPERATURE)]] = Field(
        [0.4, 0.5, 0.6, 0.7, 0.8, 1.0]
    )
    """errors against t, for the process in the simulation code of the BCL authors"""
    assumed_alphas: NonEmpty[Alpha] = Field([0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99])
    """errors under a wrong α"""
    shown_class_probabilities: NonEmpty[Probability] = Field([0.1, 0.3, 0.5])
    """jump of BCL's Eq. 10: τ⁺"""
    imbalance: OpenFraction = 0.1
    """r for the ten classes of Proposition 1 and Theorem 4"""
    bound_temperatures: NonEmpty[Positive] = Field([1.0, 0.5])
    """Proposition 1: t = 1/γ²"""
    bound_negative_counts: NonEmpty[Count] = Field([4, 16, 64, 256, 1024, 4096])
    """Proposition 1: N"""
    bound_positive_counts: NonEmpty[Count] = Field([1, 16, 256])
    """Proposition 1: number of positives"""
    imbalances: list[Fraction] = Field([0.1, 0.5, 1.0])
    """Lemma 2: r"""
    lemma_negative_counts: NonEmpty[Count] = Field([1, 4, 16, 64, 256])
    """Lemma 2: N"""
    theorem_negatives: Count = 254
    """Theorem 4: N"""
    theorem_positives: Count = 1
    """Theorem 4: number of positives"""
    dimension: Count = 128
    """Theorem 4: size of the embedding"""
    training_samples: Count = 27_500
    """Theorem 4: training images"""


class TheoryStudy(ExperimentStudy):
    """A theory study: estimators on the stochastic process, and bounds compared with the quantities
    that they bound.
    """

    EXPERIMENTS = tuple(EXPERIMENTS)
    COMPUTED_BY = "trueneg.theory.experiments:run"
    FOUND_BY = "trueneg.report.findings:of_errors"
    TABLES = MappingProxyType(
        {"normalisation": ("Proposition 3.1", "Densities integrate to 1 and are never negative.")}
    )

    kind: Literal["theory"]
    """theory: run experiments on a process with known ground truth"""
    process: ProcessSettings = Field(default_factory=ProcessSettings)
    sweeps: SweepSettings = Field(default_factory=SweepSettings)

    @property
    def experiment_settings(self) -> Section:
        return self.process.model_dump(mode="json") | self.sweeps.model_dump(mode="json")
