"""Properties of the process: the BCL paper's Figs. 1, 3 and 4, its weights, and Proposition 3.1.

Every experiment returns a tidy data frame with one value per row. ``standard error`` is 0 for exact
values.
"""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.integrate import quad
from scipy.stats import gaussian_kde

from trueneg.specs.kinds.theory import SweepSettings
from trueneg.theory.distributions import Conditional
from trueneg.theory.scores import Setting, simulate_scores

POPULATIONS = {"true negatives": 0.0, "false negatives": 1.0}
SHOWN_ALPHAS = (0.5, 0.7, 0.9, 1.0)
POINTS = 61  # points at which a density is evaluated


def class_conditional_densities(
    setting: Setting, sweeps: SweepSettings, density_draws: int = 20_000
) -> pd.DataFrame:
    """Compute densities of true and false negatives for the normal base (BCL, Fig. 3): closed form
    and histogram on [−3, 3].

    Returns:
        ``population``, ``alpha``, ``score``, ``source`` ("closed form" or "drawn"), ``density``,
            ``standard error``.
    """
    edges = np.linspace(-3, 3, POINTS + 1)
    centres, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    frames = []
    for keys, population, drawn in _populations(
        setting.varied(base="normal", temperature=1.0), density_draws
    ):
        frequency = np.histogram(drawn, edges)[0] / density_draws
        error = np.sqrt(frequency * (1 - frequency) / density_draws) / width
        exact = population.density(centres)
        frames.append(_beside({**keys, "score": centres}, exact, "drawn", frequency / width, error))
    return pd.concat(frames, ignore_index=True)


def observation_densities(
    setting: Setting, sweeps: SweepSettings, density_draws: int = 20_000, temperature: float = 2.0
) -> pd.DataFrame:
    """Compute densities of e^(x/t) for one anchor with a uniform base (BCL, Fig. 4): in closed
    form, and as a kernel estimate.

    Returns:
        ``population``, ``alpha``, ``observation``, ``source`` ("closed form" or "kernel estimate"),
            ``density``,
        ``standard error`` (of the kernel estimate, to first order, ignoring its bias near the
            ends).
    """
    process = setting.varied(base="uniform", temperature=temperature)
    observation = np.exp(np.linspace(-1.15, 1.15, POINTS) * process.half_width / temperature)
    score = temperature * np.log(observation)
    frames = []
    for keys, population, drawn in _populations(process, density_draws):
        # The density of y = e^(x/t) is that of x times dx/dy = t/y.
        exact = population.density(score) * temperature / observation
        kernel = gaussian_kde(np.exp(drawn / temperature))
        estimate = kernel(observation)
        error = np.sqrt(
            estimate
            * (1 / (2 * math.sqrt(math.pi) * math.sqrt(kernel.covariance[0, 0]) * density_draws))
        )
        frames.append(
            _beside({**keys, "observation": observation}, exact, "kernel estimate", estimate, error)
        )
    return pd.concat(frames, ignore_index=True)


def density_ratio(setting: Setting, sweeps: SweepSettings) -> pd.DataFrame:
    r"""Compute p⁺/p⁻ at the optimum of the biased loss (BCL, Fig. 1), a ratio with a pole.

    .. math:: \frac{p^+}{p^-} = \frac{\hat x\,\tau^-}{m - \hat x\,\tau^+}

    Equation 10, with x̂ in units of m. Since p⁺/p_d is at most 1/τ⁺, x̂ never exceeds m/τ⁺, where
    the ratio jumps; below the jump, the ratio increases with x̂.

    Returns:
        ``class_probability``, ``similarity`` (x̂/m), ``branch`` ("attainable" or "beyond the
            jump"), ``ratio``,
        ``standard error`` (0).
    """
    frames = []
    for eta in sweeps.shown_class_probabilities:
        for branch, relative in (
            ("attainable", np.linspace(0, 0.98, 50)),
            ("beyond the jump", np.linspace(1.02, 2, 50)),
        ):
            similarity = relative * (1 / eta)
            ratio = similarity * (1 - eta) / (1 - similarity * eta)
            keys = {"class_probability": eta, "similarity": similarity, "branch": branch}
            frames.append(pd.DataFrame({**keys, "ratio": ratio, "standard error": 0.0}))
    return pd.concat(frames, ignore_index=True)


def normalisation(setting: Setting, sweeps: SweepSettings) -> pd.DataFrame:
    """Check Proposition 3.1: the densities of true and false negatives integrate to 1 and are
    nowhere negative.

    Returns:
        ``base``, ``population``, ``alpha``, ``quantity`` ("integral" or "smallest density"),
            ``value``, ``standard error``
        (of the adaptive quadrature; 0 for the smallest density, which is evaluated on a grid).
    """
    rows = []
    for base, alpha, (label, false_share) in product(
        ("uniform", "normal"), SHOWN_ALPHAS, POPULATIONS.items()
    ):
        population: Any = setting.varied(base=base, alpha=alpha).population(false_share)
        low, high = population.support()
        keys = {"base": base, "population": label, "alpha": alpha}
        integral, error = quad(population.density, low, high)
        rows.append({**keys, "quantity": "integral", "value": integral, "standard error": error})
        smallest = float(population.density(np.linspace(low, high, 1001)).min())
        rows.append(
            {**keys, "quantity": "smallest density", "value": smallest, "standard error": 0.0}
        )
    return pd.DataFrame(rows)


def _populations(
    setting: Setting, count: int
) -> Iterator[tuple[dict[str, Any], Conditional, np.ndarray]]:
    """Yield the columns, distribution and sampled scores for each plotted α and population; base
    intervals are not shifted.
    """
    for alpha in SHOWN_ALPHAS:
        process = setting.varied(
            alpha=alpha,
            slide=0.0,
            class_probability=0.0,
            anchors=1,
            negatives=count,
            positives=count,
        )
        scores = simulate_scores(process)
        # With τ⁺ = 0 all negatives are true; positives have the distribution of false negatives.
        for (name, false_share), logits in zip(
            POPULATIONS.items(), (scores.negatives, scores.positive), strict=True
        ):
            drawn = logits[0].numpy() * setting.temperature
            yield {"population": name, "alpha": alpha}, process.population(false_share), drawn


def _beside(
    keys: dict[str, Any], exact: np.ndarray, source: str, estimate: np.ndarray, error: np.ndarray
) -> pd.DataFrame:
    """Combine a density in closed form with its estimate and standard error in one data frame."""
    closed = pd.DataFrame(
        {**keys, "source": "closed form", "density": exact, "standard error": 0.0}
    )
    return pd.concat(
        [
            closed,
            pd.DataFrame({**keys, "source": source, "density": estimate, "standard error": error}),
        ]
    )
