"""From the contrastive loss to classification: Lemma 2 and Theorem 4 of Sample-Specific Debiasing
(2023).

On a finite labelled set, the asymptotic debiased loss can be computed exactly, so the lemma can be
checked. For the theorem, only its terms can be evaluated.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from pandas import DataFrame
from torch import Tensor
from torch.nn import functional

from trueneg.evaluation.mean_classifier import class_means, mean_classifier
from trueneg.theory.bounds import proposition_1

ANCHORS_PER_BLOCK = 1024
ITERATIONS = 100  # maximum number of L-BFGS iterations
CONFIDENCE = 0.95  # 1 − δ of Theorem 4


def asymptotic_loss(
    features: Tensor, labels: Tensor, negatives: Sequence[float], temperature: float = 1.0
) -> Tensor:
    r"""Compute L̄ on a finite labelled set exactly, for several N.

    .. math::

        \mathbb{E}_{x, x^+}\Bigl[-\log\frac{e^{s(x,x^+)}}{e^{s(x,x^+)} +
        N\,\mathbb{E}_{x^-}[e^{s(x,x^-)}]}\Bigr]

    Equation 11 (13 in the appendix): x is any sample, x⁺ any sample of its class (including x
    itself, as in the lemma's class means), and x⁻ any sample of another class. s is the cosine
    divided by t.

    Args:
        features: (n, D); normalised here.
        labels: int64, (n,), of at least two classes.
        negatives: the values of N, above 0.
        temperature: t.

    Returns:
        One loss per N, float64.
    """
    features, labels = _prepared(features, labels)
    sizes = torch.bincount(labels).double()
    log_counts = torch.tensor(negatives, dtype=torch.float64).log()[:, None]
    total = torch.zeros(len(log_counts), dtype=torch.float64)
    for anchors, anchor_labels in zip(
        features.split(ANCHORS_PER_BLOCK), labels.split(ANCHORS_PER_BLOCK), strict=True
    ):
        logits = anchors @ features.T / temperature
        same = anchor_labels[:, None] == labels
        log_mean = (
            logits.masked_fill(same, -math.inf).logsumexp(1)
            - (len(labels) - sizes[anchor_labels]).log()
        )
        anchor, other = same.nonzero(as_tuple=True)
        losses = functional.softplus(log_mean[anchor] - logits[anchor, other] + log_counts)
        total += (losses / sizes[anchor_labels[anchor]]).sum(1)
    return total / len(features)


def mean_classifier_loss(
    features: Tensor, labels: Tensor, temperature: float = 1.0, pairs: bool = False
) -> float:
    """Compute the supervised loss of the mean classifier (equation 16).

    Args:
        features: (n, D); normalised here.
        labels: int64, (n,), of at least two classes.
        temperature: t; the class means are divided by it.
        pairs: whether to average over pairs of classes, weighted as in equation 17, instead of
            classifying all classes at once.
    """
    features, labels = _prepared(features, labels)
    classes = int(labels.max()) + 1
    logits = features @ class_means(features, labels, classes).T / temperature
    if not pairs:
        return float(functional.cross_entropy(logits, labels))
    rho = torch.bincount(labels).double() / len(labels)
    losses = []
    weights = []
    for a, b in itertools.combinations(range(classes), 2):
        # D_T: the samples of both classes, at their natural frequencies
        of_pair = (labels == a) | (labels == b)
        losses.append(
            functional.cross_entropy(logits[of_pair][:, [a, b]], (labels[of_pair] == b).long())
        )
        weights.append(rho[a] * rho[b])
    return float(np.average(losses, weights=weights))


def best_linear_loss(features: Tensor, labels: Tensor, temperature: float = 1.0) -> float:
    """Approximate the smallest supervised loss of a linear classifier, with L-BFGS started from the
    mean classifier.

    The result lies between the smallest loss (equation 15), which may be reached only at infinity,
    and the loss of the mean classifier.

    Args:
        features: (n, D); normalised here.
        labels: int64, (n,).
        temperature: t of the initial mean classifier.
    """
    features, labels = _prepared(features, labels)
    weight = (class_means(features, labels, int(labels.max()) + 1) / temperature).requires_grad_()
    optimiser = torch.optim.LBFGS([weight], max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = functional.cross_entropy(features @ weight.T, labels)
        value.backward()
        return value

    optimiser.step(loss)
    return float(functional.cross_entropy(features @ weight.detach().T, labels))


def lemma_2(
    features: Tensor, labels: Tensor, negatives: Sequence[int], temperature: float = 1.0
) -> DataFrame:
    """Evaluate Lemma 2 on a finite set: best linear loss ≤ mean classifier's ≤ L̄(N) if N ≥ (1 −
    ρ)/ρ for the rarest class.

    Args:
        features: (n, D); normalised here.
        labels: int64, (n,), of at least two classes.
        negatives: values of N at which to compute L̄; the smallest N that the lemma allows is
            added.
        temperature: t.

    Returns:
        One row per quantity (per N for L̄): ``quantity``, ``negatives`` (NaN if not applicable),
            ``promised`` (whether the lemma covers N), ``value``, ``standard error`` (0: nothing is
            random). The accuracy of the mean classifier is one of the quantities.
    """
    features, labels = _prepared(features, labels)
    sizes = torch.bincount(labels)
    smallest = smallest_number((sizes.double() / len(labels)).tolist())
    counts = sorted({*map(int, negatives), smallest})
    losses = asymptotic_loss(features, labels, counts, temperature)
    predicted = mean_classifier(features, labels, features, classes=len(sizes))
    supervised = {
        "mean classifier, all classes": mean_classifier_loss(features, labels, temperature),
        "mean classifier, pairs of classes": mean_classifier_loss(
            features, labels, temperature, pairs=True
        ),
        "best linear classifier": best_linear_loss(features, labels, temperature),
        "accuracy of the mean classifier": float((predicted == labels).double().mean()),
    }
    rows = [
        ("asymptotic debiased loss", float(n), n >= smallest, float(loss))
        for n, loss in zip(counts, losses, strict=True)
    ]
    rows += [(quantity, math.nan, True, value) for quantity, value in supervised.items()]
    return DataFrame(rows, columns=["quantity", "negatives", "promised", "value"]).assign(
        **{"standard error": 0.0}
    )


def smallest_number(rho: Sequence[float]) -> int:
    """Return the smallest N that Lemma 2 covers: (1 − ρ)/ρ for the rarest class, rounded up.

    Example:
        >>> smallest_number([0.1] * 10)
        9
    """
    rarest = float(np.min(rho))
    return math.ceil((1 - rarest) / rarest - 1e-9)


def lipschitz_constant(negatives: int, positives: int, largest_eta: float) -> float:
    """Compute a Lipschitz constant of equation 28, the loss as a function of differences of
    similarities, at γ = 1.

    Follows the proof (equations 41 to 48), but corrects constants that are too small in the paper:
    |dω/dz| ≤ N/(1 + N e⁻²) < e² (eq. 43 has e⁻²); |∂ψ/∂d| ≤ (e² − 1)/(1 − η)², as a and b share the
    positive's factor (eq. 46 has e); e⁴ in both sums (eq. 48 has it in only one).

    Args:
        negatives: N.
        positives: M.
        largest_eta: η_max.
    """
    rest = 1 - largest_eta
    outer = negatives / (1 + negatives * math.exp(-2))
    of_similarities = math.exp(4) * (1 / negatives + largest_eta**2 / positives) / rest**2
    return outer * math.sqrt(of_similarities + (math.exp(2) - 1) ** 2 / rest**4 + 1)


def theorem_4(
    loss: float, negatives: int, positives: int, rho: Sequence[float], dimension: int, samples: int
) -> DataFrame:
    """Compute the terms of Theorem 4 at γ = 1; constants are those of its proof, or 1 where the
    proof gives none.

    Each class has its true η. κ is assumed to be constant, the best case; the confidence is 95 %.

    Args:
        loss: L(f, N, M) of the encoder.
        negatives: N.
        positives: M.
        rho: (C,) the probability of each class.
        dimension: D of the embedding.
        samples: T, the number of training anchors.

    Returns:
        One row per term: ``encoders`` (all functions into the unit ball, as in the theorem, or
            linear maps of unit norm), ``term``, ``value``, ``standard error`` (0).
    """
    n = negatives
    m = positives
    largest_eta = max(rho)
    lipschitz = lipschitz_constant(n, m, largest_eta) * math.sqrt(6 * (n + m) + 2)
    largest_loss = math.log(
        1 + n * max((math.exp(2) - largest_eta * math.exp(-2)) / (1 - largest_eta), 1)
    )
    points = (n + m + 2) * samples
    # If f is arbitrary, the supremum of ⟨σ, f|S⟩ is attained point by point: |σ| = √D each. For
    # linear maps of unit Frobenius norm on unit-norm inputs, it is the norm of a D × D' matrix of
    # sums, at most √(D · points).
    complexity = {
        "all functions": points * math.sqrt(dimension),
        "linear maps": math.sqrt(dimension * points),
    }
    rows = []
    for encoders, value in complexity.items():
        terms = {
            "L(f, N, M)": loss,
            "Proposition 1": proposition_1(n, m, rho, rho),
            "complexity": lipschitz * value / samples,
            "confidence": largest_loss * math.sqrt(math.log(1 / (1 - CONFIDENCE)) / samples),
        }
        terms["sum"] = sum(terms.values())
        terms["log C (no information)"] = math.log(len(rho))
        rows += [
            {"encoders": encoders, "term": term, "value": value} for term, value in terms.items()
        ]
    return DataFrame(rows).assign(**{"standard error": 0.0})


def _prepared(features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return unit-length float64 features, and labels renumbered from 0 without gaps."""
    return functional.normalize(features.double(), dim=1), labels.unique(return_inverse=True)[1]
