"""Labels as a source of images reads them."""

from pathlib import Path

import numpy as np

from trueneg.errors import UserError


def checked_labels(file: Path, labels: np.ndarray, first: int, last: int | None) -> np.ndarray:
    """The labels as int64 from 0, after checking that each is from `first` to `last` (None: any number from `first` on).

    Args:
        file: that the labels are from.
        labels: numbers, shape (n,).
        first, last: label of the first and the last class.

    Raises:
        UserError: naming the file and the row.
    """
    valid = (labels >= first) & (True if last is None else labels <= last)
    if not valid.all():
        row = int((~valid).argmax())
        expected = f"{first} or more" if last is None else f"{first} to {last}"
        raise UserError(f"{file}: the label in row {row:,} (the first is 0) is {labels[row]}, expected {expected}.")
    return labels.astype(np.int64) - first
