"""Flickr8k's files: photographs, five captions each, the official splits, and the experts' ratings, in one of two layouts.

Official (Hodosh, Young and Hockenmaier, 2013: Flickr8k_Dataset.zip and Flickr8k_text.zip, unpacked into one folder)::

    Flicker8k_Dataset/<image>.jpg                     spelled so; Flickr8k_Dataset/ is read too
    Flickr8k.token.txt                                <image>.jpg#<0-4> TAB caption
    Flickr_8k.{train,dev,test}Images.txt              an image a line
    ExpertAnnotations.txt                             image TAB caption id TAB three ratings, 1 to 4

Parquet: one or more ``*.parquet`` with ``image`` (struct of ``bytes`` and ``path``, the image's name), ``captions`` (five texts,
in the order of their ids) and ``split`` (train, validation, test, unassigned), and beside them ``ExpertAnnotations.txt``.

The text files may lie in a folder ``Flickr8k_text``.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trueneg.data.image_files import EncodedImages, ImageFiles, ParquetImages
from trueneg.data.images.folder import contents, required_path
from trueneg.data.mistakes import refuse
from trueneg.errors import UserError
from trueneg.io.files import UserFiles, files_in

CAPTIONS, RATINGS = "Flickr8k.token.txt", "ExpertAnnotations.txt"
SPLIT_LISTS = {
    "train": "Flickr_8k.trainImages.txt",
    "validation": "Flickr_8k.devImages.txt",
    "test": "Flickr_8k.testImages.txt",
}
UNASSIGNED = "unassigned"
EACH = 5  # captions
EXPECTED = f"{CAPTIONS}, its split lists and Flicker8k_Dataset/, or *.parquet"
TEXTS_FROM = "It is in Flickr8k_text.zip."
# The official captions have five of an image that is in no folder of images.
WITHOUT_IMAGE = "2258277193_586949ec62.jpg.1"


@dataclass(frozen=True, eq=False)
class Photographs:
    """n photographs, in the order of their names (official layout) or rows (parquet).

    Attributes:
        names: str (n,): file names.
        images: encoded.
        captions: n lists of five texts.
        splits: str (n,): train, validation, test, unassigned.
    """

    names: np.ndarray
    images: EncodedImages
    captions: list[list[str]]
    splits: np.ndarray

    def first(self, count: int | None) -> "Photographs":
        """The first of them; None: all.

        Raises:
            UserError: if there are not so many.
        """
        if count is not None and count > len(self.names):
            raise UserError(f"dataset.images is {count:,}, but the folder has {len(self.names):,} photographs; lower it.")
        return Photographs(self.names[:count], self.images.part(slice(count)), self.captions[:count], self.splits[:count])


def read_photographs(path: str | Path | None) -> Photographs:
    """Flickr8k from a folder in one of the layouts of this module; no image is opened yet.

    Raises:
        UserError: naming the file, and the line or row, that is missing or of another layout.
    """
    folder = required_path(path, "flickr8k", EXPECTED)
    if find_text(folder, CAPTIONS) is not None:
        return _official(folder)
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise UserError(f"{folder}: holds no Flickr8k (found {contents(folder)}); expected {EXPECTED}.")
    return photographs_in_parquet(files)


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is missing of the folder ``path``, a line each."""
    if Path(settings["path"]).expanduser().is_dir():
        return []
    return [f"the photographs, captions and ratings in {settings['path']}: Flickr8k (Hodosh, Young and Hockenmaier, 2013)"]


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The texts and photographs, or the parquet files, in the folder ``path``."""
    folder = required_path(settings["path"], "flickr8k", EXPECTED)
    texts = [find_text(folder, name) for name in (CAPTIONS, *SPLIT_LISTS.values(), RATINGS)]
    if texts[0] is None:
        return UserFiles([*folder.glob("*.parquet"), *filter(None, texts)])
    return UserFiles([*filter(None, texts)], files_in(_images_folder(folder)))


def _images_folder(folder: Path) -> Path | None:
    return next((root for root in (folder / "Flicker8k_Dataset", folder / "Flickr8k_Dataset") if root.is_dir()), None)


def find_text(folder: Path, name: str) -> Path | None:
    """One of the text files; None if it is not there."""
    return next((path for path in (folder / name, folder / "Flickr8k_text" / name) if path.is_file()), None)


def read_ratings(path: str | Path | None) -> pd.DataFrame:
    """What three experts said of how well captions describe images, most of them of other images.

    1: the caption does not describe the image at all; 2: minor aspects of it; 3: almost, with minor mistakes; 4: it does.

    Args:
        path: folder in one of the layouts of this module.

    Returns:
        A row a pair: ``image``; the caption's ``report`` (the image that it was written for) and ``index`` (0 to 4); and
        ``rating 1``, ``rating 2``, ``rating 3``.

    Raises:
        UserError: naming the line that is not of this form.
    """
    folder = required_path(path, "flickr8k", RATINGS)
    file = find_text(folder, RATINGS)
    if file is None:
        raise UserError(f"{folder}: has no {RATINGS} (found {contents(folder)}), the human ratings. {TEXTS_FROM}")
    rows, mistakes, seen = [], [], set()
    for number, line in text_lines(file, TEXTS_FROM):
        match = re.fullmatch(r"([^\t]+)\t([^\t]+)#([0-4])\t([1-4])\t([1-4])\t([1-4])", line)
        if match is None:
            mistakes.append(
                f"{file}: line {number:,} is not an image, a caption's id and three ratings from 1 to 4, with tabs between. "
                f"{TEXTS_FROM}"
            )
        elif match.groups()[:3] in seen:
            mistakes.append(
                f"{file}: line {number:,} rates a pair that an earlier line rates, expected each once. Copy it again."
            )
        else:
            seen.add(match.groups()[:3])
            rows.append((match[1], match[2], *map(int, match.groups()[2:])))
    refuse(mistakes)
    return pd.DataFrame(rows, columns=["image", "report", "index", "rating 1", "rating 2", "rating 3"])


def _official(folder: Path) -> Photographs:
    root = _images_folder(folder)
    if root is None:
        raise UserError(
            f"{folder}: has no folder Flicker8k_Dataset (found {contents(folder)}); unpack Flickr8k_Dataset.zip there."
        )
    file = find_text(folder, CAPTIONS)
    captions = read_captions(file, text_lines(file, TEXTS_FROM), TEXTS_FROM)
    captions.pop(WITHOUT_IMAGE, None)
    names = sorted(captions)
    splits, mistakes = {}, []
    for split, name in SPLIT_LISTS.items():
        file = find_text(folder, name)
        if file is None:
            raise UserError(f"{folder}: has no {name}, the images of the official {split} split. {TEXTS_FROM}")
        for number, image in text_lines(file, TEXTS_FROM):
            if image not in captions:
                mistakes.append(f"{file}: line {number:,} is {image}, which {CAPTIONS} has no captions of. {TEXTS_FROM}")
            if splits.setdefault(image, split) != split:
                mistakes.append(f"{file}: line {number:,}, {image}, is in {SPLIT_LISTS[splits[image]]} too, expected one split.")
    refuse(mistakes)
    images = ImageFiles(tuple(root / name for name in names), "Unpack Flickr8k_Dataset.zip again.")
    found = np.array([splits.get(name, UNASSIGNED) for name in names])
    return Photographs(np.array(names), images, [captions[name] for name in names], found)


def read_captions(
    file: Path,
    lines: Sequence[tuple[int, str]],
    remedy: str,
    *,
    pattern: str = r"([^\t#]+)#([0-4])\t(.*\S.*)",
    expected: str = "an image's name, #, 0 to 4, a tab and a caption",
) -> dict[str, list[str]]:
    """The five captions of each image, in the order of their numbers.

    Args:
        file: that the lines are of.
        lines: numbers and texts (:func:`text_lines`).
        remedy: where a whole copy is had, a sentence.
        pattern: of a line; its groups are the image's name, the caption's number and the caption.
        expected: the pattern in words.

    Raises:
        UserError: naming lines of another form, captions that are there twice, and images with other than five.
    """
    found: dict[str, dict[int, str]] = {}
    mistakes = []
    for number, line in lines:
        match = re.fullmatch(pattern, line)
        if match is None:
            mistakes.append(f"{file}: line {number:,} is not {expected}. {remedy}")
            continue
        own = found.setdefault(match[1], {})
        if int(match[2]) in own:
            mistakes.append(f"{file}: line {number:,} is the caption {match[1]}#{match[2]} again, expected once. {remedy}")
        own[int(match[2])] = match[3]
    mistakes += [
        f"{file}: {name} has {len(own)} captions, expected {EACH}. {remedy}" for name, own in found.items() if len(own) != EACH
    ]
    refuse(mistakes)
    return {name: [tidy(own[number]) for number in range(EACH)] for name, own in found.items()}


def text_lines(file: Path, remedy: str) -> list[tuple[int, str]]:
    """The lines that are not empty, with their numbers from 1.

    Raises:
        UserError: if the file cannot be read as text, with the remedy.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read as text ({error}). {remedy}") from error
    return [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def photographs_in_parquet(files: Sequence[Path]) -> Photographs:
    """Photographs in parquet files with the columns that this module names.

    Raises:
        UserError: naming the file, and the row, that is damaged or of another layout.
    """
    rows, mistakes = [], []
    for place, file in enumerate(files):
        for row, (name, captions, split) in enumerate(_parquet_rows(file)):
            where = f"{file}, row {row:,} (the first is 0)"
            texts = [tidy(text) for text in captions or () if text and text.strip()]
            if not name:
                mistakes.append(f"{where}: image.path is empty, expected the image's file name.")
            if len(texts) != EACH or len(captions) != EACH:
                mistakes.append(f"{where}: has {len(texts)} captions with text, expected {EACH}.")
            if split not in (*SPLIT_LISTS, UNASSIGNED):
                mistakes.append(f"{where}: split is {split!r}, expected {', '.join(SPLIT_LISTS)} or {UNASSIGNED}.")
            rows.append((name, (place, row), texts, split))
    counts = Counter(row[0] for row in rows if row[0])
    mistakes += [
        f"{files[0].parent}: {count} rows have the image {name}, expected one." for name, count in counts.items() if count > 1
    ]
    if not rows:
        raise UserError(f"{files[0]}: has no rows, expected photographs.")
    refuse(mistakes)
    images = ParquetImages(tuple(files), "image", tuple(row[1] for row in rows))
    return Photographs(np.array([row[0] for row in rows]), images, [row[2] for row in rows], np.array([row[3] for row in rows]))


def _parquet_rows(file: Path) -> list[tuple]:
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            schema = parquet.schema_arrow
            kind = schema.field("image").type if "image" in schema.names else None
            if kind is None or not pa.types.is_struct(kind) or {"captions", "split"} - set(schema.names):
                present = ", ".join(f"{field.name}: {field.type}" for field in schema) or "none"
                raise UserError(
                    f"{file}: has the columns {present}; expected image: struct<bytes: binary, path: string>, captions: "
                    "list<string>, split: string."
                )
            table = parquet.read(columns=["image.path", "captions", "split"])
    except (pa.ArrowException, OSError) as error:
        reason = " ".join(str(error).split())[:120].rstrip(".")
        raise UserError(f"{file}: is not a whole parquet file ({reason}). Download or copy it again.") from error
    paths = [value and value["path"] and Path(value["path"]).name for value in table.column("image").to_pylist()]
    return list(zip(paths, table.column("captions").to_pylist(), table.column("split").to_pylist(), strict=True))


def tidy(text: str) -> str:
    """A caption with single spaces."""
    return " ".join(text.split())
