"""Photographs with five captions each: functions shared by the readers of Flickr8k and Flickr30k.

Both datasets may also be stored as one or more ``*.parquet`` files with columns ``image`` (struct of ``bytes`` and ``path``, the
image's name), ``captions`` (five texts, in the order of their ids) and ``split`` (train, validation, test, unassigned).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from trueneg.data.image_files import EncodedImages, ImageFiles, ParquetImages
from trueneg.data.images.sources.parquet import has_encoded_images
from trueneg.data.mistakes import readable, refuse
from trueneg.data.pairs.pair_images import PairImages
from trueneg.data.tables import read_lines, repeated_values, wrong_values
from trueneg.errors import UserError

UNASSIGNED = "unassigned"
SPLITS = ("train", "validation", "test", UNASSIGNED)
EACH = 5  # captions per photograph
TOKEN_LINE = r"(?P<image>[^\t#]+)#(?P<number>[0-4])\t(?P<caption>.*\S.*)"
AGAIN = "Download or copy it again."


@dataclass(frozen=True, eq=False)
class Photographs:
    """The n photographs of a dataset, in the order of their names (official layout) or rows (parquet).

    Attributes:
        names: str (n,): file names.
        images: encoded images.
        captions: n lists of five texts.
        splits: str (n,): train, validation, test, unassigned.
    """

    names: np.ndarray
    images: EncodedImages
    captions: list[list[str]]
    splits: np.ndarray

    def texts(self) -> pd.DataFrame:
        """Return the captions; each photograph is a report of five sentences and its own patient."""
        names = np.repeat(self.names.astype(object), EACH)
        captions = [caption for own in self.captions for caption in own]
        return pd.DataFrame({"report": names, "patient": names, "text": captions})

    def joined(self, count: int | None) -> PairImages:
        """Return the first `count` photographs (None: all) with their splits, without caption classes or labels."""
        if count is not None and count > len(self.names):
            raise UserError(f"dataset.images is {count:,}, but the folder has {len(self.names):,} photographs; lower it.")
        names = self.names[:count]
        splits = pd.DataFrame({"report": names, "split": self.splits[:count]})
        return PairImages(self.images.part(slice(count)), names, names, mode="RGB", tables={"splits": splits})


def read_captions(
    file: Path,
    origin: str,
    *,
    pattern: str = TOKEN_LINE,
    expected: str = "an image's name, #, 0 to 4, a tab and a caption",
    header: int = 0,
) -> pd.Series:
    """Read the captions of each image, ordered by number, from a file with one line per caption.

    Args:
        file: file to read.
        origin: a sentence that says where to get a complete copy.
        pattern: regular expression of a line, with the groups ``image``, ``number`` and ``caption``.
        expected: description of the pattern, for messages.
        header: number of lines before the first caption.

    Returns:
        A list of texts per image, indexed by image name.

    Raises:
        UserError: names lines that do not match and duplicate captions.
    """
    lines = read_lines(file, pattern, expected, origin, header=header)
    lines["caption's id"] = lines["image"] + "#" + lines["number"]
    refuse([f"{file}: {mistake} {origin}" for mistake in repeated_values(lines, "caption's id")])
    return lines.sort_values("number", kind="stable").groupby("image")["caption"].agg(list)


def with_splits(captions: pd.Series, splits: Mapping[Any, str]) -> pd.DataFrame:
    """Return ``image``, ``captions`` and ``split`` of photographs; those not in `splits` are unassigned."""
    names = captions.index.to_series()
    table = pd.DataFrame({"image": names, "captions": captions, "split": names.map(splits).fillna(UNASSIGNED)})
    return table.rename_axis(None)


def checked_photographs(table: pd.DataFrame, file: Path, origin: str) -> pd.DataFrame:
    """Check every value of a table with one row per photograph, and normalise whitespace in captions.

    Args:
        table: table with ``image``, ``captions``, ``split``; the index gives the location of each row.
        file: file that contains the table.
        origin: a sentence that says where to get a complete copy.

    Raises:
        UserError: if there is no photograph, or one lacks a unique name, five non-empty captions or a split.
    """
    if table.empty:
        raise UserError(f"{file}: has no photographs. {origin}")
    named = table["image"].map(lambda name: isinstance(name, str) and name != "")
    captioned = table["captions"].map(_are_captions)
    mistakes = [
        *wrong_values(table, "image", ~named, "the name of an image file"),
        *repeated_values(table, "image"),
        *wrong_values(table, "captions", ~captioned, f"{EACH} texts"),
        *wrong_values(table, "split", ~table["split"].isin(SPLITS), f"one of {', '.join(SPLITS)}"),
    ]
    refuse([f"{file}: {mistake} {origin}" for mistake in mistakes])
    return table.assign(captions=table["captions"].map(lambda texts: [" ".join(text.split()) for text in texts]))


def _are_captions(texts: Sequence[str] | None) -> bool:
    return texts is not None and len(texts) == EACH and all(isinstance(text, str) and text.strip() for text in texts)


def photographs_in_folder(folder: Path, table: pd.DataFrame, origin: str) -> Photographs:
    """Return the checked photographs of a table, sorted by name, with their files in a folder."""
    ordered = table.sort_values("image")
    images = ImageFiles(tuple(folder / name for name in ordered["image"]), origin)
    return Photographs(ordered["image"].to_numpy(str), images, ordered["captions"].tolist(), ordered["split"].to_numpy(str))


def photographs_in_parquet(files: Sequence[Path]) -> Photographs:
    """Return the photographs in parquet files with the columns described in this module.

    Raises:
        UserError: names the file, and the row, that is damaged or has an unexpected layout.
    """
    tables = [_rows(file) for file in files]
    table = checked_photographs(pd.concat(tables), files[0].parent, AGAIN)
    places = tuple((number, row) for number, rows in enumerate(tables) for row in range(len(rows)))
    images = ParquetImages(tuple(files), "image", places)
    return Photographs(table["image"].to_numpy(str), images, table["captions"].tolist(), table["split"].to_numpy(str))


def _rows(file: Path) -> pd.DataFrame:
    with readable(file, "a parquet file", AGAIN), pq.ParquetFile(file, page_checksum_verification=True) as parquet:
        types = {field.name: field.type for field in parquet.schema_arrow}
        if not has_encoded_images(types.get("image")) or not {"captions", "split"} <= types.keys():
            present = ", ".join(f"{name}: {kind}" for name, kind in types.items()) or "none"
            raise UserError(
                f"{file}: has the columns {present}; expected image: struct<bytes: binary, path: string>, captions: "
                "list<string>, split: string."
            )
        table = parquet.read(columns=["image.path", "captions", "split"])
    columns = {name: table.column(name).to_pylist() for name in ("captions", "split")}
    paths = [image and image["path"] for image in table.column("image").to_pylist()]
    names = [path and Path(path).name for path in paths]
    places = [f"{file.name}, row {row:,} (the first is 0)" for row in range(len(table))]
    return pd.DataFrame({"image": names, **columns}, index=places)
