"""The labels of CheXpert's labeller, as its tables write them: 1, 0, -1 (uncertain), or nothing (not mentioned)."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

# The five of them that image–text studies use, by the names that they have in all sources.
CHEX5 = {
    "cardiomegaly": "Cardiomegaly",
    "edema": "Edema",
    "effusion": "Pleural Effusion",
    "pneumonia": "Pneumonia",
    "pneumothorax": "Pneumothorax",
}
OBSERVATIONS = (
    *("No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion", "Edema", "Consolidation"),
    *("Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion", "Pleural Other", "Fracture", "Support Devices"),
)
WRITTEN: Mapping[str, float] = {
    "": np.nan,
    **dict.fromkeys(("1", "1.0"), 1.0),
    **dict.fromkeys(("0", "0.0"), 0.0),
    **dict.fromkeys(("-1", "-1.0"), -1.0),
}


def label_mistakes(table: pd.DataFrame) -> list[str]:
    """What is no label, a sentence each.

    Args:
        table: columns of labels as text; its index tells in words where a row is.
    """
    return [
        f"{place}: {column} is {value}, expected 1, 0, -1 or nothing."
        for column in table
        for place, value in table.loc[~table[column].isin(list(WRITTEN)), column].items()
    ]


def label_values(table: pd.DataFrame) -> np.ndarray:
    """The labels of :func:`label_mistakes`' table as numbers: 1, 0, −1 (uncertain), NaN (not mentioned).

    Returns:
        float32, shape (rows, columns).

    Example:
        >>> label_values(pd.DataFrame({"Edema": ["1.0", ""], "Fracture": ["-1.0", "0"]}))
        array([[ 1., -1.],
               [nan,  0.]], dtype=float32)
    """
    return table.map(WRITTEN.__getitem__).to_numpy(np.float32).reshape(table.shape)


def known(values: np.ndarray) -> np.ndarray:
    """Labels as sources of pairs have them: 1, 0, and NaN for unknown. Uncertain is unknown, and so is not mentioned, never 0."""
    return np.where(values == -1, np.float32(np.nan), values)
