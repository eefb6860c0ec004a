"""The typed model of a theory study: the stochastic process of the BCL paper and the experiments on it."""

from typing import Annotated, Literal

from pydantic import Field

from trueneg.specs.settings import (
    Count,
    Fraction,
    NonNegative,
    OpenFraction,
    Positive,
    Probability,
    Real,
    Seed,
    Settings,
    Study,
    technical,
)

Alpha = Annotated[Real, Field(ge=0.5, le=1)]
Slide = Annotated[Real, Field(ge=0, le=1)]
Alphas = Annotated[list[Alpha], Field(min_length=1)]
Probabilities = Annotated[list[Probability], Field(min_length=1)]
Counts = Annotated[list[Count], Field(min_length=1)]
Temperatures = Annotated[list[Positive], Field(min_length=1)]


class ProcessSettings(Settings):
    """The process parameters that an experiment does not vary; the defaults follow the BCL paper's simulations."""

    alpha: Alpha = Field(0.9, description="α: the probability that a true negative is farther than a false one")
    class_probability: Probability = Field(0.1, description="τ⁺: the probability that a negative is false (open in the paper)")
    slide: Slide = Field(0.1, description="largest shift of an anchor's base interval")
    temperature: Positive = Field(0.5, description="t: logits are scores / t")
    anchors: Count = Field(1000, description="anchors of a repetition")
    negatives: Count = Field(64, description="N, of each anchor")
    positives: Count = Field(10, description="K, of each anchor, for DCL")
    seed: Seed = Field(0, description="of all draws")


class SweepSettings(Settings):
    """Parameter values that the experiments vary."""

    alphas: Alphas = Field([0.5, 0.6, 0.7, 0.8, 0.9, 0.99], description="errors against α")
    class_probabilities: Probabilities = Field([0.02, 0.05, 0.1, 0.2, 0.3, 0.5], description="errors against τ⁺")
    negative_counts: Counts = Field([16, 32, 64, 128, 256, 512], description="errors against N")
    long_negative_counts: Counts = Field([16, 64, 256, 1024, 4096], description="bias against N, up to where it should be gone")
    anchor_counts: Counts = Field([50, 100, 200, 500, 1000, 2000], description="errors against the number of anchors")
    positive_counts: Counts = Field([1, 2, 5, 10, 32, 64, 256], description="errors against K")
    slides: list[Slide] = Field([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], description="errors against the slide")
    temperatures: Temperatures = Field([0.1, 0.2, 0.3, 0.5, 0.7, 1.0], description="errors against t")
    assumed_alphas: Alphas = Field([0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99], description="errors under a wrong α")
    map_alphas: Alphas = Field([0.5, 0.6, 0.7, 0.8, 0.9, 0.99], description="map of the best estimator: α")
    map_class_probabilities: Probabilities = Field([0.02, 0.05, 0.1, 0.2, 0.4], description="map: τ⁺")
    map_negative_counts: Counts = Field([30, 126, 510], description="map: N")
    map_positive_counts: Counts = Field([1, 10, 100], description="map: K")
    shown_class_probabilities: Probabilities = Field([0.1, 0.3, 0.5], description="the jump of BCL's Eq. 10: τ⁺")
    shown_betas: list[NonNegative] = Field([0.0, 0.5, 1.0], description="importance weights: β")
    imbalance: OpenFraction = Field(0.1, description="r of the ten classes of Proposition 1 and Theorem 4")
    bound_temperatures: Temperatures = Field([1.0, 0.5], description="Proposition 1: t = 1/γ²")
    bound_negative_counts: Counts = Field([4, 16, 64, 256, 1024, 4096], description="Proposition 1: N")
    bound_positive_counts: Counts = Field([1, 16, 256], description="Proposition 1: number of positives")
    imbalances: list[Fraction] = Field([0.1, 0.5, 1.0], description="r of Proposition 1 (informative sizes) and of Lemma 2")
    size_temperatures: Temperatures = Field([1.0, 0.5, 0.25, 0.1], description="t where Proposition 1 is informative")
    lemma_negative_counts: Counts = Field([1, 4, 16, 64, 256], description="Lemma 2: N")
    theorem_negatives: Count = Field(254, description="Theorem 4: N")
    theorem_positives: Count = Field(1, description="Theorem 4: number of positives")
    dimension: Count = Field(128, description="Theorem 4: size of the embedding")
    training_samples: Count = Field(27_500, description="Theorem 4: training images")
    gradient_negatives: Count = Field(254, description="smooth bound: N")
    gradient_class_probabilities: Probabilities = Field([0.1, 0.18], description="smooth bound: η")


class TheoryStudy(Study):
    """A theory study: estimators on the stochastic process, and bounds compared with the quantities they bound."""

    kind: Literal["theory"] = Field(description="theory: experiments on a process whose truth is known")
    process: ProcessSettings = Field(default_factory=ProcessSettings)
    sweeps: SweepSettings = Field(default_factory=SweepSettings)
    mem_mb: Count = technical(2000, "memory of an experiment, in MB")
    runtime: Count = technical(10, "minutes that an experiment may take on a cluster")
