"""Proposition 1, Lemma 2 and Theorem 4 with numbers in them, and what bounds the debiased estimate.

Every function returns a tidy frame, one row a number. ``standard error`` is 0 where a number is exact.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional

from trueneg.data.imbalance import class_probabilities, imbalanced_indices
from trueneg.losses.base import Estimator
from trueneg.losses.estimators import Debiased, Uncorrected
from trueneg.theory.bounds import (
    approximation_error,
    informative_size,
    objectives,
    proposition_1,
    trivial_bound,
)
from trueneg.theory.scores import Scores, Setting, simulate_scores
from trueneg.theory.transfer import lemma_2, theorem_4

BOUNDS = {"CL": None, "hard bound": False, "smooth bound": True}  # smooth_bound of DCL


def approximation_errors(
    setting: Setting,
    *,
    repetitions: int = 4,
    imbalance: float = 0.1,
    bound_temperatures: Sequence[float] = (1.0, 0.5),
    bound_negative_counts: Sequence[int] = (4, 16, 64, 256, 1024, 4096),
    bound_positive_counts: Sequence[int] = (1, 16, 256),
) -> pd.DataFrame:
    """Proposition 1 measured: |L − L̄| of CL and DCL with constant and true η, beside the bound and the trivial one.

    Args:
        setting: the process; the classes are those of CIFAR10-r.
        repetitions: at the setting's N; elsewhere as many as make the same number of draws, at least one.
        imbalance: r of CIFAR10-r, whose ten classes have the probabilities 0.2r/(1 + r) and 0.2/(1 + r).
        bound_temperatures: each t; the proposition's own proof has t = 1.
        bound_negative_counts: each N.
        bound_positive_counts: each M.

    Returns:
        ``temperature``, ``negatives``, ``positives``, ``objective``, ``quantity`` ("|L − L̄|", "mean |Δ|", "Proposition 1",
        "trivial bound"), ``value`` (nats), ``standard error``.
    """
    rho = class_distribution(imbalance)
    contestants = objectives(rho)
    frames = []
    for temperature in bound_temperatures:
        for negatives in bound_negative_counts:
            one = replace(setting, temperature=temperature, negatives=negatives, class_probability=rho)
            times = max(1, repetitions * setting.negatives // negatives)
            measured = approximation_error(one, contestants, bound_positive_counts, times)
            bounds = [
                {"objective": name, "positives": positives, "quantity": quantity, "value": value, "standard error": 0.0}
                for name, objective in contestants.items()
                for positives in bound_positive_counts
                for quantity, value in (
                    (
                        "Proposition 1",
                        sum(proposition_1(negatives, positives, rho, objective.class_probability, temperature).values()),
                    ),
                    ("trivial bound", trivial_bound(negatives, rho, objective.class_probability, temperature)),
                )
            ]
            both = pd.concat([measured, pd.DataFrame(bounds)])
            frames.append(both.assign(temperature=temperature, negatives=negatives))
    return pd.concat(frames, ignore_index=True)


def informative_sizes(
    setting: Setting, *, imbalances: Sequence[float] = (0.1, 0.5, 1.0), size_temperatures: Sequence[float] = (1.0, 0.5, 0.25, 0.1)
) -> pd.DataFrame:
    """From how many negatives on Proposition 1 says more than the trivial bound.

    Args:
        setting: not looked at: nothing is drawn.
        imbalances: each r of CIFAR10-r.
        size_temperatures: each t.

    Returns:
        ``imbalance``, ``temperature``, ``objective``, ``positives`` ("1" or "as many as negatives"), ``value`` (the number of
        negatives; infinity: none is enough), ``standard error`` (0).
    """
    rows = []
    for imbalance in imbalances:
        rho = class_distribution(imbalance)
        for temperature in size_temperatures:
            for name, objective in objectives(rho).items():
                for label, positives in (("1", 1), ("as many as negatives", None)):
                    size = informative_size(rho, objective.class_probability, temperature, positives)
                    keys = {"imbalance": imbalance, "temperature": temperature, "objective": name, "positives": label}
                    rows.append({**keys, "value": size, "standard error": 0.0})
    return pd.DataFrame(rows)


def supervised_bound(
    setting: Setting, *, imbalances: Sequence[float] = (0.1, 0.5, 1.0), lemma_negative_counts: Sequence[int] = (1, 4, 16, 64, 256)
) -> pd.DataFrame:
    """Lemma 2 on real images: digits, five classes thinned out, their centred pixels for an encoder.

    For an encoder's own features call :func:`trueneg.theory.transfer.lemma_2`.

    Args:
        setting: its temperature and seed.
        imbalances: each r; digits 5 to 9 are the rare classes.
        lemma_negative_counts: each N.

    Returns:
        ``imbalance``, and the columns of :func:`trueneg.theory.transfer.lemma_2`.
    """
    from trueneg.data.images.sources.digits import load  # brings scikit-learn along, which is slow to import

    digits = load()
    frames = []
    for imbalance in imbalances:
        kept = imbalanced_indices(digits.labels, imbalance, range(5, 10), setting.seed)
        pixels = torch.from_numpy(digits.images[kept]).flatten(1).double()
        labels = torch.from_numpy(digits.labels[kept])
        frame = lemma_2(pixels - pixels.mean(0), labels, lemma_negative_counts, setting.temperature)
        frames.append(frame.assign(imbalance=imbalance))
    return pd.concat(frames, ignore_index=True)


def generalisation_terms(
    setting: Setting,
    *,
    imbalance: float = 0.1,
    theorem_negatives: int = 254,
    theorem_positives: int = 1,
    dimension: int = 128,
    training_samples: int = 27_500,
) -> pd.DataFrame:
    """Theorem 4's terms at the size of the CIFAR10-r experiment, with DCL's true η; its proof has t = 1.

    Args:
        setting: the process that the loss is measured on.
        imbalance: r of CIFAR10-r.
        theorem_negatives: N.
        theorem_positives: M.
        dimension: D of the embedding.
        training_samples: T; at r = 0.1 CIFAR10-r has 27,500 training images.

    Returns:
        The columns of :func:`trueneg.theory.transfer.theorem_4`.
    """
    rho = class_distribution(imbalance)
    one = replace(setting, temperature=1.0, negatives=theorem_negatives, positives=theorem_positives + 1, class_probability=rho)
    scores = simulate_scores(one)
    log_mass = Debiased()(scores.positive[:, :-1], scores.negatives, scores.class_probability, -1.0)
    loss = functional.softplus(log_mass - scores.positive[:, -1])
    bound = proposition_1(theorem_negatives, theorem_positives, rho, rho)
    terms = theorem_4(
        float(loss.mean()),
        theorem_negatives,
        theorem_positives,
        dimension,
        training_samples,
        max(rho),
        sum(bound.values()),
        len(rho),
    )
    error = float(loss.std()) / len(loss) ** 0.5
    terms.loc[terms["term"].isin(["L(f, N, M)", "sum"]), "standard error"] = error
    return terms


def smooth_bound(
    setting: Setting,
    *,
    gradient_negatives: int = 254,
    gradient_class_probabilities: Sequence[float] = (0.1, 0.18),
    cosines: Sequence[float] = tuple(np.linspace(0.5, 1.0, 26).round(3)),
) -> pd.DataFrame:
    """What DCL's smooth bound changes, against the cosine of the anchor's only positive.

    Args:
        setting: the process of the negatives.
        gradient_negatives: N.
        gradient_class_probabilities: each η, which is also the process's τ⁺.
        cosines: each cosine of the positive, the same for all anchors.

    Returns:
        ``class_probability``, ``cosine``, ``bound`` ("CL", "hard bound", "smooth bound"; for the estimate also "true
        negatives"), ``quantity`` ("estimate": g; "gradient on negatives": Σ|∂loss/∂u|; "relative gradient": that over CL's
        on the same draws; "anchors with gradient": their share), ``value``, ``standard error``.
    """
    rows = []
    for eta in gradient_class_probabilities:
        scores = simulate_scores(replace(setting, class_probability=eta, negatives=gradient_negatives, positives=1))
        for cosine in cosines:
            keys = {"class_probability": eta, "cosine": float(cosine)}
            reference = None
            for name, smooth in BOUNDS.items():
                estimator = Uncorrected() if smooth is None else Debiased(eta, smooth_bound=smooth)
                estimate, gradient = _gradients(scores, estimator, float(cosine), setting.temperature)
                reference = gradient if reference is None else reference
                quantities = {
                    "estimate": estimate,
                    "gradient on negatives": gradient,
                    "anchors with gradient": (gradient > 0).double(),
                }
                rows += [{**keys, "bound": name, "quantity": what, **_mean(values)} for what, values in quantities.items()]
                rows.append({**keys, "bound": name, "quantity": "relative gradient", **_ratio(gradient, reference)})
            rows.append({**keys, "bound": "true negatives", "quantity": "estimate", **_mean(scores.exact_mean)})
    return pd.DataFrame(rows)


def _gradients(scores: Scores, estimator: Estimator, cosine: float, temperature: float) -> tuple[Tensor, Tensor]:
    """(A,) the estimate g with the floor, and (A,) the sum of the absolute gradients of the anchor's loss on negatives."""
    positive = torch.full((len(scores.negatives),), cosine / temperature, dtype=torch.float64)
    negatives = scores.negatives.clone().requires_grad_()
    log_mass = estimator(positive, negatives, floor=-1 / temperature)
    (gradient,) = torch.autograd.grad(functional.softplus(log_mass - positive).sum(), negatives)
    return log_mass.detach().exp() / negatives.shape[1], gradient.abs().sum(1)


def _mean(values: Tensor) -> dict[str, float]:
    return {"value": float(values.mean()), "standard error": float(values.std()) / len(values) ** 0.5}


def _ratio(values: Tensor, reference: Tensor) -> dict[str, float]:
    """Mean over mean, with the standard error of a ratio of paired means to first order."""
    ratio = float(values.mean() / reference.mean())
    error = float((values - ratio * reference).std() / reference.mean()) / len(values) ** 0.5
    return {"value": ratio, "standard error": error}


def class_distribution(fraction: float) -> tuple[float, ...]:
    """The class probabilities of CIFAR10-r: five common classes, five rare ones."""
    low, high = class_probabilities(fraction)
    return (high,) * 5 + (low,) * 5
