"""Validate the labels of image sources, and number the classes given by name."""

import unicodedata
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import numpy as np

from trueneg.data.table_formats import plain
from trueneg.errors import UserError


def checked_labels(file: Path, labels: np.ndarray, first: int, last: int | None) -> np.ndarray:
    """Check that labels are whole numbers from `first` to `last` (None: 2,147,483,648); return them
    as int64 starting at 0.

    Args:
        file: file that contains the labels.
        labels: numeric labels, shape (n,).
        first, last: labels of the first and the last class.

    Raises:
        UserError: names the file and row of an invalid label.
    """
    last, numbers = 2**31 if last is None else last, labels.astype(np.float64)
    valid = (numbers >= first) & (numbers <= last) & (numbers == np.floor(numbers))
    if not valid.all():
        row = int((~valid).argmax())
        problem = f"the label in row {row:,} (the first is 0) is {labels[row]}"
        raise UserError(f"{file}: {problem}; expected {first} to {last} (a whole number).")
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
    distinct = set(names)
    if all(name.isdecimal() for name in distinct):
        return tuple(sorted(distinct, key=lambda name: (int(name), name)))
    return tuple(sorted(distinct))


def refuse_ambiguous(rare_classes: Collection[int | str], class_names: Sequence[str]) -> None:
    """Check that no number in `dataset.rare_classes` is the index of one class and the name of
    another.

    Raises:
        UserError: names both classes.
    """
    for number, name in enumerate(class_names):
        if name.isdecimal() and int(name) != number and int(name) in rare_classes:
            problem = (
                f"dataset.rare_classes contains {int(name)}, but the class named {name} is number"
                f" {number}"
            )
            remedy = "Rename the classes to 0, 1, 2, … or to names with a letter."
            raise UserError(
                f"{problem}, because classes are numbered from 0 in the order of their names."
                f" {remedy}"
            )
