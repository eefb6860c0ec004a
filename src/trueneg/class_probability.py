"""η(x), the probability that a random sample shares the latent class of x."""

import math
import sys
from typing import TYPE_CHECKING, Any

try:
    import numpy as np
except ModuleNotFoundError:  # tensors need PyTorch alone
    np = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

PERMUTED = "log_likelihood permuted"
LIKELIHOODS = ["log_likelihood", PERMUTED, "tokens"]  # what class probabilities are made of


def from_class_frequency(labels: "np.ndarray | Tensor") -> "np.ndarray | Tensor":
    """Return the relative frequency of each sample's own class.

    A label below 0 is unknown. Frequencies are those among the labelled samples, and an unlabelled
    one gets their mean: the probability that two labelled samples share their class.

    Args:
        labels: (n,) integer array or tensor.

    Returns:
        (n,) array or tensor, matching the input type and device; float64, or float32 off the CPU,
            where it may be missing.

    Raises:
        ValueError: if the labels are not a vector, or none is known.

    Example:
        >>> from_class_frequency(np.array([0, 0, 0, 1])).tolist()
        [0.75, 0.75, 0.75, 0.25]
        >>> from_class_frequency(np.array([0, 0, 0, 1, -1])).tolist()
        [0.75, 0.75, 0.75, 0.25, 0.625]
    """
    library = _library_of(labels)
    labels = library.asarray(labels)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(
            f"labels have the shape {tuple(labels.shape)}; expected a non-empty vector (n,)."
        )
    is_known = labels >= 0
    if _is_readable(labels) and not is_known.any():
        raise ValueError(
            "labels are all below 0, which is unknown; expected the class of some samples."
        )
    _, inverse, counts = library.unique(labels, return_inverse=True, return_counts=True)
    frequency = library.asarray(counts[inverse], dtype=_precision(labels)) / is_known.sum()
    if _is_readable(labels) and is_known.all():
        return frequency
    return library.where(is_known, frequency, frequency[is_known].mean())


def probability_of_shared_class(classes: "np.ndarray", weights: "np.ndarray") -> float:
    r"""Return the probability that two different samples, drawn with these weights, share their
    class.

    With equal weights:

    .. math:: \sum_c \frac{n_c (n_c - 1)}{n (n - 1)} \approx \sum_c p_c^2

    Args:
        classes: (n,) class of each sample, such as the number of its text, from 0.
        weights: (n,) how often each sample is drawn, on any scale.

    Example:
        >>> probability_of_shared_class(np.array([0, 0, 0, 1]), np.ones(4))  # 3 of the 6 pairs
        0.5
    """
    weights = weights / weights.sum()
    itself = (weights**2).sum()
    shared = (np.bincount(classes, weights) ** 2).sum() - itself
    # less is rounding, and may be negative
    return float(shared / ((1 - itself) or 1.0)) if shared > 1e-9 * itself else 0.0


def from_log_likelihood(
    log_p: "np.ndarray | Tensor | float",
    a: float = 0.2,
    k: float = 0.35,
    maximum: float = 0.9,
    tokens: "np.ndarray | Tensor | None" = None,
) -> "np.ndarray | Tensor":
    r"""Compute η of a text from its log-likelihood: :math:`\eta = \min(a\, p^k, \mathrm{maximum})`.

    As in Sample-Specific Debiasing (2023). Computed as exp(log a + k·log p) with a bounded
    exponent, so that it neither overflows nor underflows to 0. Long texts always have a low
    likelihood; with `tokens`, log p is averaged over the tokens of each text, which the paper does
    not do.

    Args:
        log_p: natural log of the (pseudo-)likelihood; a number, array or tensor.
        a: η of a text with likelihood 1; must be positive.
        k: exponent of the log-linear model; must be non-negative.
        maximum: largest η, in (0, 1).
        tokens: number of tokens of each text, by which log_p is divided; None: no normalisation, as
            in the paper.

    Returns:
        η in the shape of log_p: float64 for arrays and numbers, or float32 off the CPU;
            floating-point tensors keep their dtype.

    Raises:
        ValueError: if a parameter is out of range, a log-likelihood is NaN, or a text has no
            tokens. Values on an accelerator, and while compiling, are not read.

    Example:
        >>> from_log_likelihood(np.array([0.0, -2.0, -1e6])).round(3).tolist()
        [0.2, 0.099, 0.0]
        >>> float(from_log_likelihood(-1e6)) > 0
        True
    """
    if not (a > 0 and math.isfinite(a)):
        raise ValueError(f"a is {a}; expected a positive number.")
    if not (k >= 0 and math.isfinite(k)):
        raise ValueError(f"k is {k}; expected a number greater than or equal to 0.")
    if not 0 < maximum < 1:
        raise ValueError(f"maximum is {maximum}; expected a number between 0 and 1.")
    if tokens is not None:
        if _is_readable(tokens) and (tokens < 1).any():
            raise ValueError(
                "tokens contains values below 1; a text without tokens has no likelihood."
            )
        log_p = log_p / tokens
    library = _library_of(log_p)
    values: Any = log_p
    if library is np or not values.is_floating_point():
        values = library.asarray(log_p, dtype=_precision(log_p))
    if _is_readable(values) and library.isnan(values).any():
        count = int(library.isnan(values).sum())
        total = math.prod(values.shape)
        raise ValueError(
            f"log_p contains {count} NaN among {total} values; remove those texts, or score them"
            " again."
        )
    smallest = math.log(library.finfo(values.dtype).tiny)
    exponent = math.log(a) + k * library.clip(values, -1e30, 1e30)  # −∞ times k = 0 would be NaN
    return library.exp(library.clip(exponent, smallest, math.log(maximum)))


def log_linear(
    name: str, table: "pd.DataFrame", a: float, k: float, maximum: float
) -> "np.ndarray":
    """Return η = min(a·p^k, maximum) of every sentence, or a control derived from these values,
    float64.

    Args:
        name: ``language model``; ``permuted``: the same values assigned to random sentences;
            ``constant mean``: their mean, the same correction for every sentence; ``length``: mean
            η of sentences of the same length (if it performs as well as η, the language model adds
            nothing beyond length).
        table: :data:`LIKELIHOODS` of each sentence: ``log_likelihood``, the same values permuted,
            and ``tokens``.
        a, k, maximum: as in :func:`from_log_likelihood`.
    """
    likelihood = table[PERMUTED if name == "permuted" else "log_likelihood"]
    values = np.asarray(from_log_likelihood(likelihood.to_numpy(), a, k, maximum))
    if name == "length":
        _, length, counts = np.unique(
            table["tokens"].to_numpy(), return_inverse=True, return_counts=True
        )
        return (np.bincount(length, values) / counts)[length]
    return np.full_like(values, values.mean()) if name == "constant mean" else values


def _is_readable(values: Any) -> bool:
    """Return whether reading values costs nothing: on the CPU, unless the program is being
    compiled.
    """
    library = _library_of(values)
    return library is np or (values.device.type == "cpu" and not library.compiler.is_compiling())


def _precision(values: Any) -> Any:
    """Return the most precise dtype of the values' device."""
    library = _library_of(values)
    return library.float64 if library is np or values.device.type == "cpu" else library.float32


def _library_of(values: Any) -> Any:
    """Return PyTorch for a tensor, else NumPy; PyTorch is not imported if only arrays are used."""
    if type(values).__module__.partition(".")[0] == "torch":
        return sys.modules["torch"]
    if np is None:
        raise ModuleNotFoundError(
            f"The module numpy is missing, and the values are a {type(values).__name__}; expected a"
            " tensor, or numpy: pip install numpy.",
            name="numpy",
        )
    return np
