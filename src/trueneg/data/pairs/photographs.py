"""Photographs with five captions each: what the readers of Flickr8k and Flickr30k share.

Both may also be one or more ``*.parquet`` with ``image`` (struct of ``bytes`` and ``path``, the image's name), ``captions`` (five
texts, in the order of their ids) and ``split`` (train, validation, test, unassigned).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from trueneg.data.image_files import EncodedImages, ImageFiles, ParquetImages
from trueneg.data.mistakes import readable, refuse
from trueneg.data.pairs.pair_images import PairImages
from trueneg.errors import UserError

UNASSIGNED = "unassigned"
SPLITS = ("train", "validation", "test", UNASSIGNED)
EACH = 5  # captions


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

    @classmethod
    def in_folder(cls, folder: Path, captions: Mapping[str, list[str]], splits: Mapping[str, str], remedy: str) -> "Photographs":
        """The photographs that have captions, by name; those that `splits` lacks are unassigned."""
        names = sorted(captions)
        images = ImageFiles(tuple(folder / name for name in names), remedy)
        found = np.array([splits.get(name, UNASSIGNED) for name in names])
        return cls(np.array(names), images, [captions[name] for name in names], found)

    def texts(self) -> pd.DataFrame:
        """The captions: a photograph is a report of five, and its own patient."""
        names = np.repeat(self.names.astype(object), EACH)
        captions = [caption for own in self.captions for caption in own]
        return pd.DataFrame({"report": names, "patient": names, "text": captions})

    def joined(self, sentences: pd.DataFrame, count: int | None) -> PairImages:
        """The first photographs (None: all), with their splits; no class of a caption is known, and there are no labels."""
        if count is not None and count > len(self.names):
            raise UserError(f"dataset.images is {count:,}, but the folder has {len(self.names):,} photographs; lower it.")
        names = self.names[:count]
        found = sentences["report"].isin(set(names.tolist())).sum()
        if found != EACH * len(names):
            raise UserError(
                f"the table of sentences has {found:,} captions of the {len(names):,} photographs, expected {EACH} of each; "
                "remove it to have it made again from the same files."
            )
        splits = pd.DataFrame({"report": names, "split": self.splits[:count]})
        return PairImages(self.images.part(slice(count)), names, names, mode="RGB", tables={"splits": splits})


def matching_lines(file: Path, pattern: str, expected: str, remedy: str, *, header: int = 0) -> list[tuple[int, re.Match]]:
    """The number from 1 and the pattern's match of each line that is not empty and not in the header.

    Raises:
        UserError: if the file cannot be read as text, or naming lines that do not match.
    """
    with readable(file, "text", remedy):
        text = file.read_text(encoding="utf-8")
    lines = [(number, line.rstrip("\r")) for number, line in enumerate(text.split("\n"), 1) if line.strip() and number > header]
    found = [(number, re.fullmatch(pattern, line)) for number, line in lines]
    refuse([f"{file}: line {number:,} is not {expected}. {remedy}" for number, match in found if match is None])
    return found


def read_captions(
    file: Path,
    remedy: str,
    *,
    pattern: str = r"(?P<image>[^\t#]+)#(?P<number>[0-4])\t(?P<caption>.*\S.*)",
    expected: str = "an image's name, #, 0 to 4, a tab and a caption",
    header: int = 0,
) -> dict[str, list[str]]:
    """The five captions of each image, in the order of their numbers.

    Args:
        file: with a line for each caption.
        remedy: where to get a whole copy, a sentence.
        pattern: of a line, with the groups ``image``, ``number`` and ``caption``.
        expected: the pattern in words.
        header: lines before the first caption.

    Raises:
        UserError: naming lines of another form, captions that are there twice, and images with other than five.
    """
    found: dict[str, dict[str, str]] = {}
    mistakes = []
    for line, match in matching_lines(file, pattern, expected, remedy, header=header):
        own = found.setdefault(match["image"], {})
        if match["number"] in own:
            again = f"{match['image']}#{match['number']} again, expected once"
            mistakes.append(f"{file}: line {line:,} is the caption {again}. {remedy}")
        own[match["number"]] = match["caption"]
    mistakes += [
        f"{file}: {name} has {len(own)} captions, expected {EACH}. {remedy}" for name, own in found.items() if len(own) != EACH
    ]
    refuse(mistakes)
    return {name: [tidy(own[number]) for number in sorted(own)] for name, own in found.items()}


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
            if split not in SPLITS:
                mistakes.append(f"{where}: split is {split!r}, expected one of {', '.join(SPLITS)}.")
            rows.append((name, (place, row), texts, split))
    counts = Counter(row[0] for row in rows if row[0])
    mistakes += [
        f"{files[0].parent}: {count} rows have the image {name}, expected one." for name, count in counts.items() if count > 1
    ]
    if not rows:
        raise UserError(f"{files[0]}: has no rows, expected photographs.")
    refuse(mistakes)
    names, places, captions, splits = (list(column) for column in zip(*rows, strict=True))
    return Photographs(np.array(names), ParquetImages(tuple(files), "image", tuple(places)), captions, np.array(splits))


def _parquet_rows(file: Path) -> list[tuple]:
    with (
        readable(file, "a parquet file", "Download or copy it again."),
        pq.ParquetFile(file, page_checksum_verification=True) as rows,
    ):
        schema = rows.schema_arrow
        if not {"image", "captions", "split"} <= set(schema.names) or not pa.types.is_struct(schema.field("image").type):
            present = ", ".join(f"{field.name}: {field.type}" for field in schema) or "none"
            raise UserError(
                f"{file}: has the columns {present}; expected image: struct<bytes: binary, path: string>, captions: "
                "list<string>, split: string."
            )
        table = rows.read(columns=["image.path", "captions", "split"])
    paths = [value and value["path"] and Path(value["path"]).name for value in table.column("image").to_pylist()]
    return list(zip(paths, table.column("captions").to_pylist(), table.column("split").to_pylist(), strict=True))


def tidy(text: str) -> str:
    """A caption with single spaces."""
    return " ".join(text.split())
