"""Labels in the tables of the CheXpert labeller: 1, 0, -1 (uncertain), or empty (not mentioned)."""

import numpy as np
import pandas as pd

from trueneg.data.tables import Values

# The five labels of image–text studies: their name in all sources, and their column in the tables.
CHEX5 = {
    "cardiomegaly": "Cardiomegaly",
    "edema": "Edema",
    "effusion": "Pleural Effusion",
    "pneumonia": "Pneumonia",
    "pneumothorax": "Pneumothorax",
}
OBSERVATIONS = (
    "No Finding",
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
)
LABEL = Values(r"\s*((0|-?1)(\.0)?)?\s*", "1, 0, -1 or an empty value")


def label_values(table: pd.DataFrame) -> pd.DataFrame:
    """Convert label columns (:data:`LABEL`) to float32: 1, 0, or NaN if unknown. Uncertain and
    unmentioned labels are NaN, not 0.

    Example:
        >>> label_values(pd.DataFrame({"Edema": ["1.0", ""], "Fracture": ["-1.0", "0"]})).to_numpy()
        array([[ 1., nan],
               [nan,  0.]], dtype=float32)
    """
    values = table.map(lambda written: float(written.strip() or "nan")).astype(np.float32)
    return values.where(values != -1)
