"""Own data: a folder of images, and a table that says what belongs to each.

The table is a CSV file (UTF-8, commas) or a parquet file. A row is an image and a text of it; an image with several texts has
several rows. Further columns can tell the patient (or any group that must not be divided between training and test) and labels
(1, 0, or empty for unknown); those are of the image, so the same in all of its rows.
"""

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import required_path
from trueneg.data.mistakes import refuse
from trueneg.data.pairs.image_pairs import joined_sentences, read_columns, with_sentences, write_image_pairs, write_sentences
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.text import privacy
from trueneg.text.reports import COLUMNS, USED
from trueneg.text.sections import has_words
from trueneg.text.sentences import split_reports

log = logging.getLogger(__name__)

SOURCE = "image_table"
LABELS = {"": np.nan, "0": 0.0, "1": 1.0, "0.0": 0.0, "1.0": 1.0, "False": 0.0, "True": 1.0}


@dataclass(frozen=True, eq=False)
class ImageTable:
    """n images, in the order of their first rows.

    Attributes:
        names: str (n,): as the table has them.
        paths: of their files.
        patients: str (n,); the images' names where the table does not tell.
        labels: float32 (n, K): 1, 0, NaN for unknown.
        texts: a row a text: ``image``, ``text``.
    """

    names: np.ndarray
    paths: tuple[Path, ...]
    patients: np.ndarray
    labels: np.ndarray
    texts: pd.DataFrame

    def first(self, count: int | None) -> "ImageTable":
        """The first of them; None: all.

        Raises:
            UserError: if there are not so many.
        """
        if count is None:
            return self
        if count > len(self.names):
            raise UserError(f"dataset.images is {count:,}, but the table has {len(self.names):,} images; lower it.")
        names = self.names[:count]
        texts = self.texts[self.texts["image"].isin(set(names.tolist()))]
        return ImageTable(names, self.paths[:count], self.patients[:count], self.labels[:count], texts)


def read_image_table(settings: Mapping[str, Any]) -> ImageTable:
    """Read and check the table; the images' files must be there, but are not opened yet.

    Args:
        settings: ``path`` (folder of the images), ``table`` (the file), ``image_column`` (file names, within the folder),
            ``text_column``, ``patient_column`` (None: every image is its own), ``split_sentences`` (True: a text is a report,
            whose sentences are split; False: a text is one sentence, as a caption is), and perhaps ``label_columns``.

    Raises:
        UserError: with the file and line of what is wrong, ten of them at most: an empty image, text or patient, an image that is
            not there, a label that is none, a row that is there twice, an image of two patients or with two labels.
    """
    folder = required_path(settings["path"], SOURCE, "the images that the table names")
    image, text, patient = (settings[f"{name}_column"] for name in ("image", "text", "patient"))
    labels = list(settings.get("label_columns", ()))
    columns = [image, text, *([] if patient is None else [patient]), *labels]
    if len(set(columns)) < len(columns):
        raise UserError(f"reports: the columns of the table are {', '.join(columns)}, expected a different one for each purpose.")
    raw = read_columns(settings["table"], columns)
    if raw.empty:
        raise UserError(f"{settings['table']}: has no rows below its header, expected one for each image.")
    table = raw.map(_written)
    table[image] = table[image].map(lambda name: Path(name).as_posix() if name else "")
    grouping = [] if patient is None else [patient]
    expected = {image: "the name of an image file", text: "text"} | dict.fromkeys(grouping, "the patient or group of the image")
    mistakes = [*_no_texts(raw[[image, text]]), *_empty(table, expected), *_missing(table, image, folder)]
    mistakes += [*_no_labels(table, labels), *_twice(table, image, text), *_contradictions(table, image, [*grouping, *labels])]
    if settings["split_sentences"]:
        mistakes += _without_words(table, text)
    refuse([f"{settings['table']}: {mistake}" for mistake in mistakes])
    images = table.drop_duplicates(image)
    names = images[image].to_numpy(str)
    values = [[LABELS[value] for value in row] for row in images[labels].to_numpy(object)]
    return ImageTable(
        names=names,
        paths=tuple(folder / name for name in names),
        patients=names if patient is None else images[patient].to_numpy(str),
        labels=np.array(values, np.float32).reshape(len(names), len(labels)),
        texts=pd.DataFrame({"image": table[image].to_numpy(object), "text": table[text].to_numpy(object)}),
    )


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is missing of the user's own files, a line each."""
    absent = [key for key in ("path", "table") if not Path(settings[key]).expanduser().exists()]
    return [f"reports.{key}, {settings[key]}: your own" for key in absent]


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The table, and the images that it names; settings as for :func:`read_image_table`."""
    table, folder = Path(settings["table"]), required_path(settings["path"], SOURCE, "the images that the table names")
    try:
        names = read_columns(table, [settings["image_column"]])[settings["image_column"]].map(_written)
    except UserError:  # the job that reads the table reports it
        return UserFiles([table])
    return UserFiles([table], [folder / name for name in names.unique() if name])


def _written(value: object) -> str:
    """A value as a CSV file would have it; a parquet file's may be numbers, or missing."""
    return "" if value is None or value != value else str(value).strip()


def _no_texts(raw: pd.DataFrame) -> list[str]:
    return [
        f"{place}: {column} is of type {type(value).__name__}, expected text. Save the column as text."
        for column in raw
        for place, value in raw[column].items()
        if value is not None and not isinstance(value, str)
    ]


def _empty(table: pd.DataFrame, expected: Mapping[str, str]) -> list[str]:
    return [
        f"{place}: {column} is empty, expected {what}. Fill it in, or remove the row."
        for column, what in expected.items()
        for place in table.index[table[column] == ""]
    ]


def _without_words(table: pd.DataFrame, text: str) -> list[str]:
    return [
        f"{place}: {text} has no sentence with a word, expected one. Mend the text, or remove the row."
        for place, value in table[text].items()
        if value and not has_words(value)
    ]


def _missing(table: pd.DataFrame, image: str, folder: Path) -> list[str]:
    return [
        f"{place}: {image} is {name}, but {folder / name} is not there. Copy it there, or mend reports.path, the images' folder."
        for place, name in table[image].items()
        if name and not (folder / name).is_file()
    ]


def _no_labels(table: pd.DataFrame, labels: list[str]) -> list[str]:
    return [
        f"{place}: {column} is {value}, expected 1, 0, or empty where it is not known. Mend it."
        for column in labels
        for place, value in table[column].items()
        if value not in LABELS
    ]


def _twice(table: pd.DataFrame, image: str, text: str) -> list[str]:
    return [
        f"{place}: has the image and the text of an earlier row ({name}), expected each pair once. Remove one."
        for place, name in table.loc[table.duplicated([image, text]), image].items()
        if name
    ]


def _contradictions(table: pd.DataFrame, image: str, columns: list[str]) -> list[str]:
    first = table.groupby(image).transform("first")
    return [
        f"{place}: {column} is another than in the first row of {name}, expected the same in all rows of an image. Mend it."
        for column in columns
        for place, name in table.loc[table[column] != first[column], image].items()
        if name
    ]


def write_captions(
    settings: Mapping[str, Any], *, sentences: str | Path, unique: str | Path, cache: str | Path, processes: int = 1
) -> None:
    """The sentences of the texts; an image's texts are one report.

    Args:
        settings: as for :func:`read_image_table`, and ``restricted`` (whether images and text may not be shown).
        sentences, unique: parquet files to write, as :func:`trueneg.text.sentences.split_reports` does.
        cache: folder of texts that were split before.
        processes: that split.

    Raises:
        UserError: if something is wrong with the table.
    """
    table = read_image_table(settings)
    patient_of = dict(zip(table.names.tolist(), table.patients.tolist(), strict=True))
    if not settings["split_sentences"]:
        found = table.texts.assign(
            report=table.texts["image"],
            patient=table.texts["image"].map(patient_of),
            index=table.texts.groupby("image").cumcount(),
            sentence=table.texts["text"].map(lambda text: " ".join(text.split())),
        )
        write_sentences(found, sentences=sentences, unique=unique, restricted=settings["restricted"])
        return
    # An empty line ends a paragraph, and so a sentence.
    text_of = table.texts.groupby("image", sort=False)["text"].agg("\n\n".join)
    rows = [(name, patient_of[name], USED, "", "text", text) for name, text in text_of.items()]
    with tempfile.TemporaryDirectory(prefix=".reports", dir=_made(Path(sentences).parent)) as scratch:
        reports = Path(scratch) / "reports.parquet"
        privacy.write_table(pd.DataFrame(rows, columns=COLUMNS), reports, settings["restricted"])
        split_reports(reports, sentences=sentences, unique=unique, cache=cache, processes=processes)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def prepare(
    settings: Mapping[str, Any], text: Mapping[str, str | Path], pairs: str | Path, *, cache: str | Path, threads: int
) -> None:
    """Join the images with their sentences. No class of a sentence is known.

    Args:
        settings: as for :func:`read_image_table`, and ``images`` (how many, the first; None: all), ``colour`` (False: grey
            images), ``resolution`` and ``restricted``.
        text: parquet files by name: ``sentences`` of :func:`write_captions`, and ``eta`` of
            :func:`trueneg.text.eta.write_class_probabilities` (without it no class probability is known).
        pairs: .npz file to write, the sentences and the other tables beside it.
        cache: folder of the decoded images.
        threads: that decode.

    Raises:
        UserError: if something is wrong with the table or an image, or the sentences are of another table.
    """
    table = read_image_table(settings).first(settings["images"])
    found, restricted = joined_sentences(text["sentences"], table.names, eta=text.get("eta"))
    if restricted != settings["restricted"]:
        raise UserError(
            f"{text['sentences']}: was made with reports.restricted {str(restricted).lower()}. Remove it to have it made again."
        )
    has = with_sentences(table.names, found, SOURCE)
    write_image_pairs(
        SOURCE,
        ImageFiles(tuple(path for path, use in zip(table.paths, has, strict=True) if use)),
        mode="RGB" if settings["colour"] else "L",
        resolution=settings["resolution"],
        cache=cache,
        pairs=pairs,
        threads=threads,
        restricted=restricted,
        reports=table.names[has],
        patients=table.patients[has],
        sentences=found,
        labels=table.labels[has],
        label_names=tuple(settings.get("label_columns", ())),
        shown=np.zeros((int(has.sum()), 0), bool),
    )
