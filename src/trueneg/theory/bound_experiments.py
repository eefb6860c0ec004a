"""Evaluate Proposition 1, Lemma 2 and Theorem 4 numerically.

Every experiment yields parts of a tidy data frame with one value per row. ``standard error`` is 0
for exact values.
"""

from collections.abc import Iterator
from itertools import product

import pandas as pd
import torch
from pandas import DataFrame
from torch.nn import functional

from trueneg.data.imbalance import class_probabilities, imbalanced_indices
from trueneg.losses import Debiased
from trueneg.theory.bounds import approximation_error, debiased_losses, proposition_1, trivial_bound
from trueneg.theory.scores import Experiment, simulate_scores
from trueneg.theory.transfer import lemma_2, theorem_4


def approximation_errors(setting: Experiment, repetitions: int = 4) -> Iterator[DataFrame]:
    """Measure |L − L̄| for CL and DCL (constant and true η) with CIFAR10-r's class probabilities,
    and compare it with two bounds.

    Each N uses about as many scores as `repetitions` repetitions at the setting's N. The proof of
    Proposition 1 assumes t = 1.

    Returns:
        ``temperature``, ``negatives``, ``positives``, ``objective``, ``quantity`` ("|L − L̄|",
            "mean |Δ|", "Proposition 1", "trivial bound"), ``value`` (nats), ``standard error``.
    """
    rho = class_distribution(setting.imbalance)
    losses = debiased_losses(rho)
    for temperature, negatives in product(
        setting.bound_temperatures, setting.bound_negative_counts
    ):
        process = setting.varied(temperature=temperature, negatives=negatives, classes=rho)
        times = max(1, repetitions * setting.negatives // negatives)
        measured = approximation_error(process, losses, setting.bound_positive_counts, times)
        rows = []
        for (name, loss), positives in product(losses.items(), setting.bound_positive_counts):
            eta = loss.class_probability
            bound = proposition_1(negatives, positives, rho, eta, temperature)
            trivial = trivial_bound(negatives, rho, eta, temperature)
            rows += [
                (name, positives, "Proposition 1", bound),
                (name, positives, "trivial bound", trivial),
            ]
        bounds = DataFrame(rows, columns=["objective", "positives", "quantity", "value"])
        both = pd.concat([measured, bounds.assign(**{"standard error": 0.0})])
        yield both.assign(temperature=temperature, negatives=negatives)


def supervised_bound(setting: Experiment) -> Iterator[DataFrame]:
    """Evaluate Lemma 2 on digit images, using centred pixels as features; classes 5 to 9 are
    subsampled.

    The columns are ``imbalance`` and those of :func:`trueneg.theory.transfer.lemma_2`.
    """
    # imports scikit-learn, which is slow to load
    from trueneg.data.images.sources.digits import load

    digits = load()
    for imbalance in setting.imbalances:
        kept = imbalanced_indices(digits.labels, imbalance, range(5, 10), setting.seed)
        pixels = torch.from_numpy(digits.images[kept]).flatten(1).double()
        labels = torch.from_numpy(digits.labels[kept])
        frame = lemma_2(
            pixels - pixels.mean(0), labels, setting.lemma_negative_counts, setting.temperature
        )
        yield frame.assign(imbalance=imbalance)


def generalisation_terms(setting: Experiment) -> Iterator[DataFrame]:
    """Compute the terms of Theorem 4 for DCL with true η in the CIFAR10-r experiment, at t = 1 as
    in the theorem's proof.

    The columns are those of :func:`trueneg.theory.transfer.theorem_4`.
    """
    rho = class_distribution(setting.imbalance)
    negatives = setting.theorem_negatives
    positives = setting.theorem_positives
    scores = simulate_scores(
        setting.varied(temperature=1.0, negatives=negatives, positives=positives + 1, classes=rho)
    )
    log_mass = Debiased()(
        scores.positive[:, :-1], scores.negatives, scores.class_probability, temperature=1.0
    )
    loss = functional.softplus(log_mass - scores.positive[:, -1])
    terms = theorem_4(
        float(loss.mean()), negatives, positives, rho, setting.dimension, setting.training_samples
    )
    is_measured = terms["term"].isin(["L(f, N, M)", "sum"])
    terms.loc[is_measured, "standard error"] = float(loss.std()) / len(loss) ** 0.5
    yield terms


def class_distribution(fraction: float) -> tuple[float, ...]:
    """Return the class probabilities of CIFAR10-r: five common classes, then five rare ones."""
    low, high = class_probabilities(fraction)
    return (high,) * 5 + (low,) * 5
