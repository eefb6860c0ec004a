"""Validate the labels of image sources, and number the classes given by name."""

import unicodedata
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy import ndarray

from trueneg.data.table_formats import plain
from trueneg.errors import UserError


def checked_labels(file: Path, labels: ndarray, first: int, last: int | None) -> ndarray:
    """Check that labels are whole numbers from `first` to `last` (None: 2,147,483,648); return them
    as int64 starting at 0.

    Args:
        file: file that contains the labels.
        labels: numeric labels, shape (n,).
        first, last: labels of the first and the last class.

    Raises:
        UserError: names the file and row of an invalid label.
    """
    last = 2**31 if last is None else last
    numbers = labels.astype(np.float64)
    valid = (numbers >= first) & (numbers <= last) & (numbers == np.floor(numbers))
    if not valid.all():
        row = int((~valid).argmax())
        raise UserError(
            f"{file}: the label in row {row:,} (the first is 0) is {labels[row]}; expected {first}"
            f" to {last} (a whole number)."
        )
    return labels.astype(np.int64) - first


def class_name(name: str | None) -> str | None:
    """Return a class name in Unicode's composed form and without surrounding spaces; None if it
    cannot be printed.
    """
    if name is None or any(unicodedata.category(sign) in ("Cc", "Cs") for sign in name):
        return None
    return plain(name) or None


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct class names in the order of their labels: sorted, numerically if all are
    whole numbers.

    Example:
        >>> sorted_names(["dog", "cat", "dog"]), sorted_names(["10", "9"])
        (('cat', 'dog'), ('9', '10'))
    """
    ordered = sorted(set(names))
    if all(name.isdecimal() for name in ordered):
        ordered.sort(key=int)
    return tuple(ordered)
