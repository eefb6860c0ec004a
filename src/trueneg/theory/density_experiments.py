"""Properties of the process: the BCL paper's Figs. 1, 3 and 4, its weights, and Proposition 3.1.

Every experiment yields parts of a tidy data frame with one value per row. ``standard error`` is 0
for exact values.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy import ndarray
from pandas import DataFrame
from scipy.integrate import quad
from scipy.stats import gaussian_kde

from trueneg.theory.distributions import Conditional
from trueneg.theory.scores import Experiment, Setting, simulate_scores

POPULATIONS = {"true negatives": 0.0, "false negatives": 1.0}
SHOWN_ALPHAS = (0.5, 0.7, 0.9, 1.0)
# 0.52: in the authors' empirical_distribution.py
OBSERVED_ALPHAS = (0.5, 0.52, 0.9, 1.0)
POINTS = 61  # points at which a density is evaluated


def class_conditional_densities(
    setting: Experiment, density_draws: int = 20_000
) -> Iterator[DataFrame]:
    """Compute densities of true and false negatives for the normal base (BCL, Fig. 3): closed form
    and histogram on [−3, 3].

    Returns:
        ``population``, ``alpha``, ``score``, ``source`` ("closed form" or "drawn"), ``density``,
            ``standard error``.
    """
    edges = np.linspace(-3, 3, POINTS + 1)
    centres = (edges[1:] + edges[:-1]) / 2
    width = edges[1] - edges[0]
    process = setting.varied(base="normal", temperature=1.0)
    for keys, population, drawn in _populations(process, density_draws):
        frequency = np.histogram(drawn, edges)[0] / density_draws
        error = np.sqrt(frequency * (1 - frequency) / density_draws) / width
        yield from _beside(
            {**keys, "score": centres},
            population.density(centres),
            "drawn",
            frequency / width,
            error,
        )


def observation_densities(
    setting: Experiment, density_draws: int = 20_000, temperature: float = 2.0
) -> Iterator[DataFrame]:
    """Compute densities of e^(x/t) for one anchor with a normal base (BCL, Fig. 4): in closed form,
    and as a kernel estimate; also for the α that the authors' code draws where the figure says 0.5.

    Returns:
        ``population``, ``alpha``, ``observation``, ``source`` ("closed form" or "kernel estimate"),
            ``density``, ``standard error`` (of the kernel estimate, to first order, ignoring its
            bias near the ends).
    """
    process = setting.varied(base="normal", temperature=temperature)
    observation = np.linspace(0.05, 5, POINTS)
    score = temperature * np.log(observation)
    for keys, population, drawn in _populations(process, density_draws, OBSERVED_ALPHAS):
        # The density of y = e^(x/t) is that of x times dx/dy = t/y.
        exact = population.density(score) * temperature / observation
        kernel = gaussian_kde(np.exp(drawn / temperature))
        estimate = kernel(observation)
        width = 2 * math.sqrt(math.pi) * math.sqrt(kernel.covariance[0, 0])
        error = np.sqrt(estimate * (1 / (width * density_draws)))
        keys["observation"] = observation
        yield from _beside(keys, exact, "kernel estimate", estimate, error)


def density_ratio(setting: Experiment) -> Iterator[DataFrame]:
    r"""Compute p⁺/p⁻ at the optimum of the biased loss (BCL, Fig. 1), a ratio with a pole.

    .. math:: \frac{p^+}{p^-} = \frac{\hat x\,\tau^-}{m - \hat x\,\tau^+}

    Equation 10, with x̂ in units of m. Since p⁺/p_d is at most 1/τ⁺, x̂ never exceeds m/τ⁺, where
    the ratio jumps; below the jump, the ratio increases with x̂.

    Returns:
        ``class_probability``, ``similarity`` (x̂/m), ``branch`` ("attainable" or "beyond the
            jump"), ``ratio``, ``standard error`` (0).
    """
    branches = {
        "attainable": np.linspace(0, 0.98, 50),
        "beyond the jump": np.linspace(1.02, 2, 50),
    }
    for eta, (branch, relative) in product(setting.shown_class_probabilities, branches.items()):
        similarity = relative * (1 / eta)
        ratio = similarity * (1 - eta) / (1 - similarity * eta)
        keys = {"class_probability": eta, "similarity": similarity, "branch": branch}
        yield DataFrame({**keys, "ratio": ratio, "standard error": 0.0})


def normalisation(setting: Experiment) -> Iterator[DataFrame]:
    """Check Proposition 3.1: the densities of true and false negatives integrate to 1 and are
    nowhere negative.

    Returns:
        ``base``, ``population``, ``alpha``, ``quantity`` ("integral" or "smallest density"),
            ``value``, ``standard error`` (of the adaptive quadrature; 0 for the smallest density,
            which is evaluated on a grid).
    """
    rows = []
    for base, alpha, (label, false_share) in product(
        ("uniform", "normal"), SHOWN_ALPHAS, POPULATIONS.items()
    ):
        population: Any = setting.varied(base=base, alpha=alpha).population(false_share)
        low, high = population.support()
        integral, error = quad(population.density, low, high)
        smallest = population.density(np.linspace(low, high, 1001)).min()
        rows += [
            (base, label, alpha, "integral", integral, error),
            (base, label, alpha, "smallest density", smallest, 0.0),
        ]
    columns = ["base", "population", "alpha", "quantity", "value", "standard error"]
    yield DataFrame(rows, columns=columns)


def _populations(
    setting: Setting, count: int, alphas: Sequence[float] = SHOWN_ALPHAS
) -> Iterator[tuple[dict[str, Any], Conditional, ndarray]]:
    """Yield the columns, distribution and sampled scores for each α and population; base intervals
    are not shifted.
    """
    unshifted = setting.varied(
        slide=0.0, class_probability=0.0, anchors=1, negatives=count, positives=count
    )
    for alpha in alphas:
        process = unshifted.varied(alpha=alpha)
        scores = simulate_scores(process)
        # With τ⁺ = 0 all negatives are true; positives have the distribution of false negatives.
        for (name, false_share), logits in zip(
            POPULATIONS.items(), (scores.negatives, scores.positive), strict=True
        ):
            drawn = logits[0].numpy() * setting.temperature
            yield {"population": name, "alpha": alpha}, process.population(false_share), drawn


def _beside(
    keys: dict[str, Any], exact: ndarray, source: str, estimate: ndarray, error: ndarray
) -> Iterator[DataFrame]:
    """Yield a density in closed form, and its estimate with its standard error."""
    closed = {"source": "closed form", "density": exact, "standard error": 0.0}
    yield DataFrame({**keys, **closed})
    yield DataFrame({**keys, "source": source, "density": estimate, "standard error": error})
