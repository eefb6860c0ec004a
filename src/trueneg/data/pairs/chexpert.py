"""CheXpert's tables (Irvin et al., 2019), in the layout of either of its sizes::

    train.csv, valid.csv                                         Path, Sex, Age, Frontal/Lateral, AP/PA, 14 labels
    train/patient00001/study1/view1_frontal.jpg, valid/…

Paths in the tables begin with the name of the archive (``CheXpert-v1.0-small/``, ``CheXpert-v1.0/``), which need not be the
folder's. ``dataset.path`` is the folder of the tables, or the one that holds it. CheXpert has no reports.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.data.images.folder import required_path
from trueneg.data.mistakes import refuse
from trueneg.data.pairs.chexpert_labels import OBSERVATIONS, label_mistakes, label_values
from trueneg.data.pairs.image_pairs import read_columns

PAGE = "https://stanfordmlgroup.github.io/competitions/chexpert/"
ORIGIN = f"It is part of CheXpert, or of CheXpert-small, which Stanford AIMI gives on registration ({PAGE})."
ARCHIVES = ("CheXpert-v1.0-small", "CheXpert-v1.0")
EXPECTED = "train.csv, valid.csv, train/ and valid/ (CheXpert-v1.0-small or CheXpert-v1.0)"
SPLITS = ("train", "valid")
VIEW = "Frontal/Lateral"
IMAGE = re.compile(r"(?P<split>train|valid)/(?P<patient>patient\d+)/(?P<study>study\d+)/view\d+_(?:frontal|lateral)\.jpg")


def chexpert_folder(path: str | Path | None) -> Path:
    """The folder that holds train/, wherever it lies; `path` itself, where it is in none of the places.

    Raises:
        UserError: if no path is given, or it is a file.
    """
    folder = required_path(path, "chexpert", EXPECTED)
    places = (folder, *(folder / name for name in ARCHIVES))
    return next((place for place in places if (place / "train.csv").is_file() or (place / "train").is_dir()), folder)


def image_path(written: str) -> str | None:
    """A path of a table without the archive's name; None if it is no path of CheXpert.

    Example:
        >>> image_path("CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg")
        'train/patient00001/study1/view1_frontal.jpg'
    """
    first, _, rest = written.strip().partition("/")
    inside = rest if first in ARCHIVES else written.strip()
    return inside if IMAGE.fullmatch(inside) else None


def read_chexpert(path: str | Path | None, split: str) -> pd.DataFrame:
    """One of the tables; no image is looked for.

    Args:
        path: folder in the layout of this module.
        split: ``"train"`` or ``"valid"``.

    Returns:
        ``path`` (within :func:`chexpert_folder`), ``patient``, ``study``, ``frontal``, and float32 columns of the 14 labels
        (:data:`trueneg.data.pairs.chexpert_labels.OBSERVATIONS`): 1, 0, −1 (uncertain), NaN (not mentioned).

    Raises:
        UserError: naming the table, and the lines, that are missing or damaged, and where a whole copy is had.
        ValueError: if the split is neither.
    """
    if split not in SPLITS:
        raise ValueError(f"split is {split!r}, expected one of {', '.join(SPLITS)}")
    file = chexpert_folder(path) / f"{split}.csv"
    table = read_columns(file, ("Path", VIEW, *OBSERVATIONS), ORIGIN)
    paths, labels = table["Path"].map(image_path), table[list(OBSERVATIONS)]
    mistakes = [
        f"{place}: Path is {value!r}, expected {ARCHIVES[0]}/{split}/patient00001/study1/view1_frontal.jpg or the like."
        for place, value in table.loc[paths.isna() | ~paths.str.startswith(f"{split}/", na=False), "Path"].items()
    ]
    mistakes += [f"{place}: Path is that of an earlier line." for place in table.index[paths.duplicated() & paths.notna()]]
    mistakes += [
        f"{place}: {VIEW} is {value!r}, expected Frontal or Lateral."
        for place, value in table.loc[~table[VIEW].isin(["Frontal", "Lateral"]), VIEW].items()
    ]
    refuse([f"{file}: {mistake} {ORIGIN}" for mistake in (*mistakes, *label_mistakes(labels))])
    parts = paths.str.split("/")
    described = {"path": paths, "patient": parts.str[1], "study": parts.str[2], "frontal": table[VIEW] == "Frontal"}
    values = pd.DataFrame(label_values(labels), columns=list(OBSERVATIONS), index=table.index)
    return pd.concat([pd.DataFrame(described), values], axis=1).reset_index(drop=True)


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is not there of CheXpert, a line each.

    Args:
        settings: ``path``.
    """
    folder = chexpert_folder(settings["path"])
    if (folder / "train").is_dir():
        return []
    return [f"the radiographs, train/ in {folder}: of CheXpert or CheXpert-small, Stanford AIMI, on registration: {PAGE}"]
