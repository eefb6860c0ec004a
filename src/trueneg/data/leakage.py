"""One rule against leakage, for images, pairs, texts and vectors: two samples with equal content or
of one group are never in two splits.

Splits that are drawn keep them together. In the user's own splits they are refused, unless
``dataset.leakage`` allows them or leaves them out of training.
"""

import dataclasses
import hashlib
import itertools
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy import ndarray

from trueneg.data.samples import Samples, Subset
from trueneg.errors import UserError

# A sample that two splits share is kept in the first of them.
ORDER = ("test", "validation", "train")
LEFT_OUT = "left out"
PARTS = ("bank", "pool", "train", "validation", "test")  # of a subset, without unseen labels
EXAMPLES = 3
LONGEST = 80  # characters of an example


def numbered(contents: Iterable[ndarray]) -> ndarray:
    """Number contents in order of first appearance; bitwise equal ones share a number.

    Example:
        >>> numbered(np.array([[1.5, 0.0], [2.5, 0.0], [1.5, 0.0]])).tolist()
        [0, 1, 0]
    """
    digests = [hashlib.sha256(np.ascontiguousarray(each).data).digest() for each in contents]
    return pd.factorize(np.array(digests, object))[0]


def without_leaks(samples: Samples, leakage: str | None) -> tuple[ndarray, str]:
    """Apply the rule to the official splits.

    Args:
        samples: the samples; those without a split are what training and validation, or all splits,
            are drawn from.
        leakage: the setting ``dataset.leakage``.

    Returns:
        The split of each sample, or :data:`LEFT_OUT`; and a sentence about what the splits share,
            empty if nothing.

    Raises:
        UserError: if two splits share content or groups, and `leakage` is None; it has the number
            for each pair of splits, with examples unless the data are restricted.
    """
    split = np.where(samples.split == "", "train", samples.split)
    kept = samples.split.astype(object)
    found = []
    for first, second in itertools.combinations(ORDER, 2):
        for what, values in samples.groups.items():
            is_first = split == first
            is_second = split == second
            is_shared = is_first & _shares(values, is_second)
            if not is_shared.any():
                continue
            kept[is_second & _shares(values, is_first)] = LEFT_OUT
            found.append(
                f"{is_shared.sum():,} of {is_first.sum():,} {first} samples have the same {what} as"
                f" samples of {second}{_examples(samples, is_shared)}"
            )
    if not found:
        return samples.split, ""
    shared = "; ".join(found)
    left = np.flatnonzero(kept == LEFT_OUT)
    parts = [(name, np.count_nonzero(split[left] == name)) for name in ORDER[::-1]]
    listed = " and ".join(f"{count:,} of {name}" for name, count in parts if count)
    if leakage is None:
        raise UserError(
            f"{samples.source}: {shared}. Expected splits that share nothing, because results on"
            " samples that were trained on mean nothing. Correct the splits, or set"
            " dataset.leakage: leave_out"
            f" (leaves out {listed}) or allow (the page says so)."
        )
    if leakage == "allow":
        return samples.split, f"{shared} (dataset.leakage: allow)."
    return kept, f"{shared}; left out: {listed} (dataset.leakage: leave_out)."


def without_equal_vectors(
    subset: Subset, samples: Samples, vectors: ndarray, leakage: str | None
) -> Subset:
    """Apply the rule to the splits of a seed, drawn or not: vectors that the user computed are not
    known when splits are drawn.

    Args:
        subset: the subset.
        samples: the samples that the vectors replace.
        vectors: number of each sample's vector, (n,), or (n, k) if a sample has several.
        leakage: the setting ``dataset.leakage``.

    Raises:
        UserError: as :func:`without_leaks`.
    """
    split = np.full(len(samples.split), LEFT_OUT, object)
    for name in PARTS:
        split[getattr(subset, name)] = name if name in ORDER else "train"
    samples = dataclasses.replace(samples, split=split, groups={"vectors": vectors})
    kept, shared = without_leaks(samples, leakage)
    if not shared:
        return subset
    remaining = {}
    for name in PARTS:
        part = getattr(subset, name)
        remaining[name] = part[kept[part] != LEFT_OUT]
    return dataclasses.replace(
        subset, **remaining, leakage=" ".join(filter(None, (subset.leakage, shared)))
    )


def trained_ratings(samples: Samples, subset: Subset) -> str:
    """Return a sentence about the rated pairs whose two texts are both among the anchors and
    positives of a subset's training samples; empty if there are none. They stay in evaluation.
    """
    if not len(samples.rated):
        return ""
    trained = samples.groups["texts"][subset.train]
    count = np.count_nonzero(np.isin(samples.rated, trained).all(1))
    if not count:
        return ""
    return (
        f"{count:,} of {len(samples.rated):,} rated pairs have both texts in training (seed"
        f" {subset.seed}); their correlation is not one of new texts."
    )


def _shares(values: ndarray, of_split: ndarray) -> ndarray:
    """Return whether each sample shares a value with those of a split, (n,) bool."""
    is_shared: ndarray = np.isin(values, values[of_split]).reshape(len(values), -1)
    return np.asarray(is_shared.any(1))


def _examples(samples: Samples, is_shared: ndarray) -> str:
    """Return some names of samples, unless they are restricted or unknown."""
    if samples.restricted or not len(samples.names):
        return ""
    examples = map(shortened, samples.names[is_shared][:EXAMPLES])
    return f", such as {', '.join(f'“{name}”' for name in examples)}"


def shortened(name: str) -> str:
    """Return both ends of the name of a sample."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST // 2]}…{name[-LONGEST // 2 :]}"
