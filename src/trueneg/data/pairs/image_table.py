"""The user's own data: a folder of images, and a table of their texts, patients and labels.

The table is a CSV file (UTF-8, comma-separated) or a parquet file. Each row has an image and one of its texts; an image with
several texts has several rows. Optional columns give the patient (or any group that must not be split between training and
test) and labels (1, 0, or empty for unknown). These belong to the image, so they must be the same in all of its rows.
"""

import itertools
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import required_path
from trueneg.data.mistakes import refuse
from trueneg.data.pairs.pair_images import PairImages, usable
from trueneg.data.tables import read_columns, wrong_values
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.text.cleaning import has_words

SOURCE, FOLDER = "image_table", "the images listed in the table"
log = logging.getLogger(__name__)
LABELS = {"": np.nan, "0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "False": 0.0, "True": 1.0}


def read_texts(settings: Mapping[str, Any]) -> pd.DataFrame:
    """Read the texts; the texts of an image form one report."""
    return read_image_table(settings)[0]


def read_images(settings: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], threads: int) -> PairImages:
    """Read the images of the table, in colour if ``colour`` is true. The classes of sentences are unknown."""
    texts, labels = read_image_table(settings)
    images = texts.drop_duplicates("report")
    images = images[usable(images["report"].to_numpy(str), tables["sentences"], settings["images"])]
    folder = required_path(settings["path"], SOURCE, FOLDER)
    return PairImages(
        ImageFiles(tuple(folder / name for name in images["report"])),
        images["report"].to_numpy(str),
        images["patient"].to_numpy(str),
        mode="RGB" if settings["colour"] else "L",
        restricted=settings["restricted"],
        labels=labels.loc[images.index],
    )


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """Report whether the folder or the table is missing."""
    required = {"path": "the folder of your own images", "table": "your own table"}
    missing = {key: what for key, what in required.items() if not Path(settings[key]).expanduser().exists()}
    return [f"reports.{key}, {settings[key]}: {what}" for key, what in missing.items()]


def check_table(settings: Mapping[str, Any]) -> None:
    """Check the columns and labels of the table if it exists, before anything is computed; see :func:`read_image_table`.

    Raises:
        UserError: if columns are missing or used twice, labels are invalid, or a label is 1 or 0 for fewer than two patients.
    """
    file = Path(settings["table"])
    _columns(settings)  # refuses a column that is used twice, even if the table does not exist yet
    if file.is_file():
        table = _read_table(settings)[1]
        refuse(*_located(file, _wrong_labels(table, settings)), shown=2)
        mistakes, patients = [], table[settings["patient_column"] or settings["image_column"]].replace("", np.nan)
        for column, value in itertools.product(settings.get("label_columns", ()), (0, 1)):
            count = patients[table[column].map(LABELS) == value].nunique()
            if count < 2:
                problem = f"{column} is {value} for {'one patient' if count else 'no patient'}"
                expected = "at least two, because training and test share no patient"
                mistakes.append(f"{file}: {problem}; expected {expected}; remove it from dataset.label_columns.")
        refuse(mistakes)


def check_rows(settings: Mapping[str, Any]) -> str:
    """Check every row; return a sentence with the number of rows that ``skip_incomplete`` leaves out, by kind.

    Raises:
        UserError: if rows, or with ``skip_incomplete`` all of them, cannot be used.
    """
    return "" if missing_files(settings) else _checked(settings)[1]


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """Return the table and the images listed in it."""
    table, folder = Path(settings["table"]), required_path(settings["path"], SOURCE, FOLDER)
    try:
        names = read_columns(table, [settings["image_column"]])[settings["image_column"]].map(_written)
    except UserError:  # reported by the job that reads the table
        return UserFiles([table])
    return UserFiles([table], [folder / name for name in names.unique() if name])


def read_image_table(settings: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read and check the table; the image files must exist but are not opened.

    Args:
        settings: ``path`` (folder of the images), ``table`` (the file), ``image_column`` (paths within the folder),
            ``text_column``, ``patient_column`` (None: every image is its own patient), ``split_sentences`` (True: a text is a
            report to be split into sentences; False: a text is a single sentence, such as a caption), and optionally
            ``label_columns`` and ``skip_incomplete`` (True: leave out rows that cannot be used).

    Returns:
        Two tables with one row per text and the same index: ``report`` (file name of the image), ``patient`` and ``text``; and
        the labels of the image as float32, one column per label: 1, 0, or NaN for unknown.

    Raises:
        UserError: names the file and line of up to two errors of each kind: an empty image, text or patient, a missing image, an
            invalid label, a duplicate row, or an image with conflicting patients or labels.
    """
    tables, skipped = _checked(settings)
    if skipped:
        log.warning(skipped)
    return tables


def _checked(settings: Mapping[str, Any]) -> tuple[tuple[pd.DataFrame, pd.DataFrame], str]:
    """Return the tables of :func:`read_image_table`, and a sentence about the rows left out (empty if none)."""
    folder, file = required_path(settings["path"], SOURCE, FOLDER), settings["table"]
    image, text, patient = (settings[f"{name}_column"] for name in ("image", "text", "patient"))
    labels = list(settings.get("label_columns", ()))
    raw, table = _read_table(settings)
    count = len(table)
    mistakes: list[list[str]] = []  # by kind
    skipped: list[str] = []

    def check(column: str, wrong: pd.Series, kind: str, expected: str) -> None:
        """Skip the wrong rows, so that later checks do not see them, or report them."""
        nonlocal table
        if not settings.get("skip_incomplete"):
            mistakes.append(wrong_values(table, column, wrong, expected, restricted=settings.get("restricted", False)))
        elif wrong.any():
            table = table[~wrong]
            skipped.append(f"{wrong.sum():,} {kind}")

    check(image, table[image] == "", "without an image", "an image's file name; fill it in, or remove the row")
    is_text, expected = (has_words, "a text with a word") if settings["split_sentences"] else (bool, "a non-empty text")
    check(text, ~table[text].map(is_text).astype(bool), "without a text", f"{expected}; fill it in, or remove the row")
    if patient is not None:
        check(patient, table[patient] == "", "without a patient", "a patient or group; fill it in, or remove the row")
    exists = table[image].map(lambda name: not name or (folder / name).is_file()).astype(bool)
    check(image, ~exists, "whose image does not exist", f"an image in {folder}; copy it there, or correct reports.path")
    repeats = (table[image] != "") & table.duplicated([image, text])
    once = "each image–text pair once, but an earlier row has the same pair; remove one"
    check(image, repeats, "that repeat the image and text of an earlier row", once)
    sentence = f"{file}: {count - len(table):,} of {count:,} rows are skipped: {', '.join(skipped)}." if skipped else ""
    if table.empty:
        raise UserError(f"{sentence} Correct the table, reports.path or the column names.")
    for column in (image, text):
        other = raw.loc[table.index, column].map(lambda value: value is not None and not isinstance(value, str))
        mistakes.append([f"{place}: {column} is not text. Save the column as text." for place in table.index[other]])
    if patient is not None:
        mistakes.append(_conflicts(table, image, patient))
    refuse(*_located(file, mistakes + _wrong_labels(table, settings)), shown=2)
    texts = table[[image, patient or image, text]].set_axis(["report", "patient", "text"], axis=1)
    return (texts, table[labels].map(LABELS.__getitem__).astype(np.float32)), sentence


def _read_table(settings: Mapping[str, Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the table's columns unchanged, and as text with normalised paths."""
    file, image = settings["table"], settings["image_column"]
    raw = read_columns(file, _columns(settings))
    if raw.empty:
        raise UserError(f"{file} has no rows below its header; expected one for each image.")
    table = raw.map(_written)
    table[image] = table[image].map(lambda name: Path(name).as_posix() if name else "")
    return raw, table


def _columns(settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the table's columns: image, text, patient (if there is one), labels."""
    names = [settings["image_column"], settings["text_column"], settings["patient_column"], *settings.get("label_columns", ())]
    columns = [name for name in names if name is not None]
    if len(set(columns)) < len(columns):
        raise UserError(f"reports: the columns are {', '.join(columns)}; expected a different column for each purpose.")
    return columns


def _located(file: str | Path, mistakes: Iterable[Sequence[str]]) -> list[list[str]]:
    """Prefix each message with the name of the file."""
    return [[f"{file}: {message}" for message in kind] for kind in mistakes]


def _wrong_labels(table: pd.DataFrame, settings: Mapping[str, Any]) -> list[list[str]]:
    """Return messages by kind: one per invalid label, and one per label that differs from that in the image's first row."""
    mistakes = []
    for column in settings.get("label_columns", ()):
        unknown, restricted = ~table[column].isin(LABELS), settings.get("restricted", False)
        mistakes.append(wrong_values(table, column, unknown, "1, 0, or empty if unknown", restricted=restricted))
        mistakes.append(_conflicts(table, settings["image_column"], column))
    return mistakes


def _conflicts(table: pd.DataFrame, image: str, column: str) -> list[str]:
    """Return one message per row whose value in a column differs from that of the first row of its image."""
    other = (table[image] != "") & (table[column] != table.groupby(image)[column].transform("first"))
    return [f"{place}: {column} differs from its value in the first row of the image." for place in table.index[other]]


def _written(value: object) -> str:
    """Format a value as in a CSV file; values of a parquet file may be numbers or missing."""
    return "" if value is None or value != value else str(value).strip()
