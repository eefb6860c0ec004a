"""The user's own data: a folder of images, and a table of their texts, patients and labels.

The table has one of the formats of :func:`trueneg.data.tables.read_columns`. Each row has an image
and one of its texts, or a list of them; an image with several texts may also have several rows.
Optional columns give the patient (or any group that must not be split between training and test)
and labels (1, 0, or empty for unknown). These belong to the image, so they must be the same in all
of its rows. A column of hard negatives of the text has an image of another row, or a JSON list.
"""

import functools
import itertools
import logging
import os
import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from pandas import DataFrame, Series

from trueneg.data.cells import (
    identifier,
    is_missing,
    items_of,
    listed_texts,
    lists_texts,
    truth,
)
from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import required_path
from trueneg.data.mistakes import refuse
from trueneg.data.pairs.hard_negatives import (
    listed_negatives,
    refuse_others,
    usable_negatives,
)
from trueneg.data.pairs.pair_images import PairImages, Tables, usable
from trueneg.data.table_formats import SPACE
from trueneg.data.tables import (
    ONE_TEXT,
    Rows,
    read_columns,
    require_distinct,
    required_splits,
)
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.specs.sections import Section
from trueneg.text.cleaning import has_words

SOURCE = "image_table"
FOLDER = "the images listed in the table"
log = logging.getLogger(__name__)
# paths of another machine, as :func:`relative` returns them
ELSEWHERE = r"\.\./|[A-Za-z]:/"
SHORTEN = "the table's paths are another machine's: keep what leads on from the folder"
COPY = "copy it there"
EXPECTED_LABEL = (
    "1, 0, or empty if unknown (true, false, yes and no are read, too); for classes by name, one"
    " column per class"
)


def read_texts(settings: Section) -> DataFrame:
    """Read the texts; the texts of an image form one report."""
    texts, _, skipped = read_image_table(settings)
    if skipped:
        log.warning(f"{settings['table']}: {skipped}")
    return texts


def read_images(settings: Section, tables: Tables, threads: int) -> PairImages:
    """Read the images of the table, in colour if ``colour`` is true. The classes of sentences are
    unknown.
    """
    texts, labels, skipped = read_image_table(settings)
    images = texts.drop_duplicates("report")
    images = images[usable(images["report"], tables["sentences"], settings["images"])]
    files = files_of(required_path(settings["path"], SOURCE, FOLDER), images["report"])
    return PairImages(
        ImageFiles(tuple(file for [file] in files.values())),
        images["report"].to_numpy(str),
        images["patient"].to_numpy(str),
        mode="RGB" if settings["colour"] else "L",
        restricted=settings["restricted"],
        skipped=skipped,
        labels=labels.loc[images.index],
        negatives=listed_negatives(texts) if "negatives" in texts else None,
        tables={"splits": images[["report", "split"]]} if "split" in images else {},
    )


def missing_files(settings: Section) -> list[str]:
    """Report whether the folder or the table is missing."""
    required = {"path": "the folder of your own images", "table": "your own table"}
    return [
        f"reports.{key}, {settings[key]}: {what}"
        for key, what in required.items()
        if not Path(settings[key]).expanduser().exists()
    ]


def check_table(settings: Section) -> str:
    """Check every row if the table exists, before anything is computed, but no images if their
    folder is missing.

    Returns:
        Sentences about the rows that ``skip_incomplete`` leaves out, by kind, and about hard
            negatives that are left out (empty if none).

    Raises:
        UserError: as :func:`read_image_table`; also if a label is 1 or 0 for fewer than two
            patients.
    """
    _columns(settings)  # refuses a column that is used twice, even if the table does not exist yet
    if not Path(settings["table"]).expanduser().is_file():
        return ""
    texts, labels, skipped = read_image_table(settings, has_images=not missing_files(settings))
    mistakes = []
    for column, value in itertools.product(labels, (0, 1)):
        count = texts.loc[labels[column] == value, "patient"].nunique()
        if count < 2:
            mistakes.append(
                f"{settings['table']}: {column} is {value} for"
                f" {('one patient' if count else 'no patient')}; expected at least two, because"
                " training and test share no patient; remove it from dataset.label_columns."
            )
    refuse(mistakes)
    return skipped


def user_files(settings: Section) -> UserFiles:
    """Return the table and the images listed in it."""
    table = Path(settings["table"]).expanduser()
    folder = required_path(settings["path"], SOURCE, FOLDER)
    try:
        cells = read_columns(table, [settings["image_column"]])[settings["image_column"]]
    except UserError:  # reported by the job that reads the table
        return UserFiles([table])
    names = [name for cell in cells if (name := relative(str(cell), folder=folder))]
    images = [files or [folder / name] for name, files in files_of(folder, names).items()]
    return UserFiles([table], list(itertools.chain(*images)))


def read_image_table(
    settings: Section, has_images: bool = True
) -> tuple[DataFrame, DataFrame, str]:
    """Read and check the table; the image files must exist but are not opened.

    Args:
        settings: ``path`` (folder of the images), ``table`` (the file), ``image_column`` (paths
            within the folder), ``text_column``, ``patient_column`` (None: every image is its own
            patient), ``split_sentences`` (True: a text is a report to be split into sentences;
            False: a text is a single sentence, such as a caption), and optionally
            ``label_columns``, ``split_column``, ``negative_image_columns`` and ``skip_incomplete``
            (which rows may be left out: :mod:`trueneg.data.skipping`).
        has_images: False does not look for the image files.

    Returns:
        Two tables with one row per text and the same index: ``report`` (file name of the image),
            ``patient``, ``text`` and, if there are such columns, ``split`` and ``negatives`` (lists
            of file names); and the labels of the image as float32, one column per label: 1, 0, or
            NaN for unknown. Then sentences about what is left out (empty if nothing).

    Raises:
        UserError: names the file and line of up to two errors of each kind: an empty image, text or
            patient, a missing image, an invalid label, a duplicate row, or an image with
            conflicting patients or labels.
    """
    folder = required_path(settings["path"], SOURCE, FOLDER)
    labels = list(settings.get("label_columns", ()))
    image, text, patient = (settings[f"{name}_column"] for name in ("image", "text", "patient"))
    split = settings.get("split_column")
    negatives = settings.get("negative_image_columns") or []
    rows = Rows(settings["table"], _read_table(settings), settings)
    _check_cells(rows, settings)
    if has_images:
        _check_images(rows, image, folder)
    for column in labels:
        rows.check(column, ~rows[column].isin(["", "0", "1"]), EXPECTED_LABEL)
    for column in negatives:
        rows.check(column, rows[column].map(items_of).isna(), "an image, or a JSON list of images")
    _check_same(rows, image, filter(None, (patient, split, *labels)))
    rows.check(
        image,
        (rows[image] != "") & rows.table.duplicated([image, text]),
        "each image–text pair once, but an earlier row has the same pair; remove one (all hard"
        " negatives of a text belong in one row, as a list)",
        "that repeat the image and text of an earlier row",
    )
    table, skipped = rows.usable()
    texts = table[[image, patient or image, text]].set_axis(["report", "patient", "text"], axis=1)
    if split is not None:
        texts["split"] = table[split]
    if negatives:
        named = named_images(table[negatives], folder)
        refuse_others(rows, negatives, named, table[image])
        texts["negatives"], left_out = usable_negatives(texts, named)
        skipped = " ".join(filter(None, [skipped, *left_out]))
    return texts, table[labels].replace("", np.nan).astype(np.float32), skipped


def _check_cells(rows: Rows, settings: Section) -> None:
    """Check images, texts, splits and patients for missing values."""
    image, text, patient = (settings[f"{name}_column"] for name in ("image", "text", "patient"))
    split = settings.get("split_column")
    fill_in = "; fill it in, or remove the row"
    lacks = rows[image].map(is_missing)
    rows.check(image, lacks, f"an image's file name{fill_in}", "without an image")
    lacks = rows[text].map(is_missing)
    expected = "a text with a word" if settings["split_sentences"] else "a non-empty text"
    if settings["split_sentences"]:
        lacks |= ~rows[text].map(has_words).astype(bool)
    rows.check(text, lacks, f"{expected}{fill_in}", "without a text")
    rows.check(text, rows[text].map(lists_texts), ONE_TEXT)
    if split is not None:
        rows.check(split, rows[split] == "", f"a split{fill_in}", "without a split")
    if patient is not None:
        rows.check_ids(patient, f"a patient or group{fill_in}", "without a patient")


def _check_same(rows: Rows, image: str, columns: Iterable[str]) -> None:
    """Check that what belongs to an image is the same in all of its rows."""
    for column in columns:
        first = rows.table.groupby(image)[column].transform("first")
        other = rows.table.index[(rows[image] != "") & (rows[column] != first)]
        rows.mistakes.append(
            [
                f"{place}: {column} differs from its value in the first row of the image."
                for place in other
            ]
        )


def named_images(cells: DataFrame, folder: Path) -> Series:
    """Return the images that the cells of each row name, each once."""
    names = [
        dict.fromkeys(relative(item, folder) for cell in row for item in items_of(cell) or ())
        for row in cells.itertuples(index=False)
    ]
    return Series(map(list, names), cells.index)


def _check_images(rows: Rows, image: str, folder: Path) -> None:
    """Check that each image is one file in the folder."""
    files = files_of(folder, filter(None, rows[image].unique()))
    counts = Series(files, dtype=object).map(len)
    lacks = rows[image].map(counts) == 0
    is_elsewhere = rows[image][lacks].str.match(ELSEWHERE).any()
    rows.check(
        image,
        lacks,
        f"an image in {folder}; {SHORTEN if is_elsewhere else COPY}, or correct reports.path",
        "whose image is not in the folder",
    )
    rows.check(
        image,
        rows[image].map(counts) > 1,
        "one file, but several differ only in the Unicode form of their name; rename them",
    )


def _read_table(settings: Section) -> DataFrame:
    """Return the columns as text, with each value in one of its spellings, and each text of a list
    in a row of its own.
    """
    folder = required_path(settings["path"], SOURCE, FOLDER)
    table = read_columns(
        settings["table"],
        _columns(settings),
        texts=[settings["text_column"], *(settings.get("negative_image_columns") or ())],
        restricted=settings.get("restricted", False),
    )
    split: str | None = settings.get("split_column")
    if split is not None:
        table[split] = required_splits(
            settings["table"], split, table[split], settings.get("restricted", False)
        )
    forms = dict.fromkeys(settings.get("negative_image_columns") or (), str) | {
        settings["image_column"]: functools.partial(relative, folder=folder),
        settings["text_column"]: str,
        settings["patient_column"]: identifier,
    }
    table = table.apply(lambda cells: cells.map(forms.get(cells.name, truth)))
    text = settings["text_column"]
    table[text] = table[text].map(
        lambda cell: "" if cell.strip() == "[]" else listed_texts(cell) or cell
    )
    table = table.explode(text)
    table[text] = table[text].str.strip(SPACE)
    numbers = table.groupby(level=0, sort=False).cumcount()
    table.index = [
        f"{place}, text {number + 1}" if is_listed else place
        for place, number, is_listed in zip(
            table.index, numbers, table.index.duplicated(keep=False), strict=True
        )
    ]
    return table


def relative(name: str, folder: Path) -> str:
    """Return the path of an image within the folder (outside: ``../…``), with slashes and in
    Unicode's composed form; empty if it is missing.
    """
    name = "" if is_missing(name) else unicodedata.normalize("NFC", name.strip(SPACE))
    if "\\" in name and not os.path.lexists(folder / name):  # as Windows separates folders
        name = name.replace("\\", "/")
    return os.path.relpath(os.path.join(folder, name), folder) if name else ""


def files_of(folder: Path, names: Iterable[str]) -> dict[str, list[Path]]:
    """Return the files of each name in the folder: none if it does not exist, several if they
    differ in the Unicode form.
    """

    @functools.cache
    def entries(place: Path) -> dict[str, list[Path]]:
        """Return the entries of a folder by the composed form of their names, which some file
        systems decompose.
        """
        by_name: defaultdict[str, list[Path]] = defaultdict(list)
        for entry in place.iterdir() if place.is_dir() and os.access(place, os.R_OK) else ():
            by_name[unicodedata.normalize("NFC", entry.name)].append(entry)
        return by_name

    files = {}
    for name in names:
        places = [folder]
        # ".." is not an entry, so images outside the folder do not exist
        for part in name.split("/"):
            places = [entry for place in places for entry in entries(place).get(part, ())]
        files[name] = [place for place in places if place.is_file()]
    return files


def _columns(settings: Section) -> list[str]:
    """Return the names of the table's columns: image, text, patient and split (if there are),
    labels and hard negatives.
    """
    names = [settings.get(f"{name}_column") for name in ("image", "text", "patient", "split")]
    names += settings.get("label_columns", ())
    names += settings.get("negative_image_columns") or ()
    columns = [name for name in names if name is not None]
    require_distinct("reports", columns)
    return columns
