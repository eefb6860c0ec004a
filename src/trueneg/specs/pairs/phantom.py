"""The phantom: synthetic reports and matching synthetic radiographs."""

from typing import Annotated, Literal

from pydantic import Field

from trueneg.specs.pairs.base import PairSettings, SplitPairSettings, TextSettings
from trueneg.specs.settings import Count, Positive, Real, Seed, Sweepable

Correlation = Annotated[Real, Field(ge=-1, le=1)]


class PhantomReportsSettings(TextSettings):
    """Synthetic reports with known latent classes."""

    classes_known = True

    source: Literal["phantom"]
    reports: Count = 1500
    """number of reports to draw"""
    seed: Sweepable[Seed] | None = None
    """seed of the corpus, or a list with one per corpus; none: the study's"""
    exponent: Positive = 1.0
    """exponent of Zipf's law over the fine classes"""
    correlation: Sweepable[Correlation] = 0.0
    """correlation of a class's log probability with the entropy and length of its wording; 0:
    independent
    """


class PhantomPairSettings(SplitPairSettings):
    """Synthetic radiographs for the synthetic reports of a likelihood study."""

    truth_known = True
    probabilities_known = True
    boxed = True
    TEXT_TABLES = (*PairSettings.TEXT_TABLES, "assigned", "reports", "classes")

    source: Literal["phantom"]
    contrast: Sweepable[Positive] = 1.0
    """multiplier for the visibility of findings"""
