"""Photographs with five captions each: the reader shared by Flickr8k and Flickr30k.

Both datasets may also be stored as one or more ``*.parquet`` files with columns ``image`` (struct
of ``bytes`` and ``path``, the image's name), ``captions`` (five texts, in the order of their ids)
and ``split`` (train, validation, test, unassigned).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
from pandas import DataFrame

from trueneg.data.image_files import EncodedImages, ImageFiles, ParquetImages
from trueneg.data.images.folder import Part, found_parts, missing_parts, required_path
from trueneg.data.mistakes import COPY_AGAIN
from trueneg.data.pairs.pair_images import PairImages, check_count
from trueneg.data.tables import Lines, read_lines, refuse_rows, repeated_values, wrong_values
from trueneg.errors import UserError
from trueneg.io.files import UserFiles, files_in
from trueneg.io.reading import reading
from trueneg.specs.sections import Section

UNASSIGNED = "unassigned"
SPLITS = ("train", "validation", "test", UNASSIGNED)
EACH = 5  # captions per photograph


@dataclass(frozen=True)
class PhotographSource:
    """A published dataset of photographs with five captions each.

    Args:
        name: name of the source.
        expected: description of the folder's expected contents, for messages.
        texts: required text files of the official layout; if the first is missing, parquet files
            are read.
        images: folder of the images in the official layout.
        read_official: function that takes the folder and returns the checked table of the official
            layout.
        optional: text files that the official layout may contain.
    """

    name: str
    expected: str
    texts: tuple[Part, ...]
    images: Part
    read_official: Callable[[Path], DataFrame]
    optional: tuple[Part, ...] = ()

    def read(self, path: str | Path | None) -> tuple[DataFrame, EncodedImages]:
        """Read the official layout or the parquet files in a folder, without opening any image.

        Returns:
            A table with one row per photograph, in the order of their names (official layout) or
                rows (parquet): ``image`` (file name), ``captions`` (list of five texts), ``split``
                (train, validation, test, unassigned); and the encoded images.

        Raises:
            UserError: names the missing file, or the file and line or row with an unexpected
                layout.
        """
        folder = self._folder(path)
        files = sorted(folder.glob("*.parquet"))
        if files and self.texts[0].find(folder) is None:
            tables = [_rows(file) for file in files]
            places = [
                (file, row)
                for file, rows in zip(files, tables, strict=True)
                for row in range(len(rows))
            ]
            table = checked_photographs(pd.concat(tables), folder, COPY_AGAIN)
            return table, ParquetImages(tuple(places), dict.fromkeys(files, "image"))
        root = self.images.required(folder)
        table = self.read_official(folder).sort_values("image")
        return table, ImageFiles(tuple(root / name for name in table["image"]), self.images.origin)

    def read_texts(self, settings: Section) -> DataFrame:
        """Read the captions in the folder ``path``; each photograph counts as one report and one
        patient.
        """
        table = self.read(settings["path"])[0].explode("captions")
        texts = table.rename(columns={"image": "report", "captions": "text"})
        return texts.assign(patient=texts["report"])[["report", "patient", "text"]]

    def missing_files(self, settings: Section) -> list[str]:
        """Report which files are missing from the folder ``path``."""
        folder = self._folder(settings["path"])
        if any(folder.glob("*.parquet")):
            return []
        return missing_parts(folder, (*self.texts, self.images))

    def user_files(self, settings: Section) -> UserFiles:
        """Return the texts and photographs, or the parquet files, in the folder ``path``."""
        folder = self._folder(settings["path"])
        texts = found_parts(folder, (*self.texts, *self.optional))
        if self.texts[0].find(folder) is None:
            return UserFiles([*folder.glob("*.parquet"), *texts])
        return UserFiles(texts, files_in(self.images.find(folder)))

    def _folder(self, path: str | Path | None) -> Path:
        return required_path(path, self.name, self.expected)


def joined(
    table: DataFrame, images: EncodedImages, count: int | None, **tables: DataFrame
) -> PairImages:
    """Return the first `count` photographs (None: all) with their splits and other tables, without
    caption classes or labels.
    """
    check_count(count, len(table), "photographs in the folder")
    chosen = table[:count]
    names = chosen["image"].to_numpy(str)
    tables["splits"] = DataFrame({"report": names, "split": chosen["split"].to_numpy(str)})
    return PairImages(images.part(slice(count)), names, names, mode="RGB", tables=tables)


TOKEN_LINES = Lines(
    r"(?P<image>[^\t#]+)#(?P<number>[0-4])\t(?P<caption>.*\S.*)",
    "an image's name, #, 0 to 4, a tab and a caption",
)


def read_captions(
    file: Path, splits: Mapping[Any, str], origin: str, layout: Lines = TOKEN_LINES
) -> DataFrame:
    """Read and check the captions of photographs from a file with one line per caption.

    Args:
        file: file to read.
        splits: split of each image that must have captions; other images are unassigned.
        origin: a sentence on where to get a complete copy.
        layout: layout of the lines, with the groups ``image``, ``number`` and ``caption``.

    Returns:
        One row per photograph: ``image``, ``captions`` (in the order of their numbers), ``split``.

    Raises:
        UserError: names lines that do not match, duplicate captions, and images without captions.
    """
    lines = read_lines(file, layout, origin)
    lines["caption's id"] = lines["image"] + "#" + lines["number"]
    refuse_rows(file, repeated_values(lines, "caption's id"), origin)
    captions = lines.sort_values("number", kind="stable").groupby("image")["caption"].agg(list)
    lacking = [
        f"no captions for {name}, which is in the {splits[name]} split."
        for name in sorted(set(splits) - set(captions.index))
    ]
    refuse_rows(file, lacking, origin)
    names = captions.index.to_series()
    table = DataFrame(
        {"image": names, "captions": captions, "split": names.map(splits).fillna(UNASSIGNED)}
    )
    return checked_photographs(table.rename_axis(None), file, origin)


def checked_photographs(table: DataFrame, file: Path, origin: str) -> DataFrame:
    """Check every value of a table with one row per photograph, and normalise whitespace in
    captions.

    Args:
        table: table with ``image``, ``captions``, ``split``; the index gives the location of each
            row.
        file: file that contains the table.
        origin: a sentence on where to get a complete copy.

    Raises:
        UserError: if there is no photograph, or one lacks a unique name, five non-empty captions or
            a split.
    """
    if table.empty:
        raise UserError(f"{file} contains no photographs. {origin}")
    captioned = table["captions"].map(_are_captions)
    mistakes = [
        *wrong_values(table, "image", table["image"].fillna("") == "", "the name of an image file"),
        *repeated_values(table, "image"),
        *wrong_values(table, "captions", ~captioned, f"{EACH} texts"),
        *wrong_values(table, "split", ~table["split"].isin(SPLITS), f"one of {', '.join(SPLITS)}"),
    ]
    refuse_rows(file, mistakes, origin)
    return table.assign(
        captions=table["captions"].map(lambda texts: [" ".join(text.split()) for text in texts])
    )


def _are_captions(texts: Sequence[str] | None) -> bool:
    return (
        texts is not None
        and len(texts) == EACH
        and all(isinstance(text, str) and text.strip() for text in texts)
    )


def _rows(file: Path) -> DataFrame:
    """Read names, captions and splits from a parquet file with the columns described in this
    module.
    """
    with (
        reading(
            file,
            "a parquet file with the columns image: struct<bytes: binary, path: string>,"
            " captions: list<string>, split: string",
            COPY_AGAIN,
        ),
        pq.ParquetFile(file, page_checksum_verification=True) as parquet,
    ):
        table = parquet.read(columns=["image.path", "captions", "split"])
        rows = DataFrame(table.select(["image", "captions", "split"]).to_pydict(), dtype=object)
    rows["image"] = [
        image and image["path"] and Path(image["path"]).name for image in rows["image"]
    ]
    return rows.set_axis([f"{file.name}, row {row:,} (the first is 0)" for row in range(len(rows))])
