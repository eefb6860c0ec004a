"""Validate the labels of image sources."""

from pathlib import Path

import numpy as np

from trueneg.errors import UserError


def checked_labels(file: Path, labels: np.ndarray, first: int, last: int | None) -> np.ndarray:
    """Check that labels lie between `first` and `last` (None: no upper limit) and return them as int64 starting at 0.

    Args:
        file: file that contains the labels.
        labels: numeric labels, shape (n,).
        first, last: labels of the first and the last class.

    Raises:
        UserError: names the file and row of an invalid label.
    """
    valid = (labels >= first) & (True if last is None else labels <= last)
    if not valid.all():
        row = int((~valid).argmax())
        expected = f"{first} or more" if last is None else f"{first} to {last}"
        raise UserError(f"{file}: the label in row {row:,} (the first is 0) is {labels[row]}; expected {expected}.")
    return labels.astype(np.int64) - first
