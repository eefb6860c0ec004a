"""Flickr8k: photographs with captions, and what people say of captions of OTHER photographs, which measures false negatives.

Official layout (Hodosh, Young and Hockenmaier, 2013: Flickr8k_Dataset.zip and Flickr8k_text.zip, unpacked into one folder)::

    Flicker8k_Dataset/<image>.jpg                     spelled so; Flickr8k_Dataset/ is read too
    Flickr8k.token.txt                                <image>.jpg#<0-4> TAB caption
    Flickr_8k.{train,dev,test}Images.txt              a line for each image
    ExpertAnnotations.txt                             image TAB caption id TAB three ratings, 1 to 4

Or the parquet files of :mod:`trueneg.data.pairs.photographs`, with ``ExpertAnnotations.txt`` beside them. The text files may lie
in a folder ``Flickr8k_text``.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.images.folder import contents, required_path
from trueneg.data.mistakes import refuse
from trueneg.data.pairs.pair_images import PairImages
from trueneg.data.pairs.photographs import Photographs, matching_lines, photographs_in_parquet, read_captions
from trueneg.errors import UserError
from trueneg.io.files import UserFiles, files_in

log = logging.getLogger(__name__)

CAPTIONS, RATINGS = "Flickr8k.token.txt", "ExpertAnnotations.txt"
SPLIT_LISTS = {
    "train": "Flickr_8k.trainImages.txt",
    "validation": "Flickr_8k.devImages.txt",
    "test": "Flickr_8k.testImages.txt",
}
EXPECTED = f"{CAPTIONS}, its split lists and Flicker8k_Dataset/, or *.parquet"
TEXTS_FROM = "It is in Flickr8k_text.zip."
# The official captions have five of an image that is in no folder of images.
WITHOUT_IMAGE = "2258277193_586949ec62.jpg.1"
RATING_COLUMNS = ["image", "report", "index", "rating 1", "rating 2", "rating 3"]


def read_texts(settings: Mapping[str, Any]) -> pd.DataFrame:
    """The captions of the photographs in the folder ``path``."""
    return read_photographs(settings["path"]).texts()


def read_images(settings: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], threads: int) -> PairImages:
    """The photographs, with the ratings of those pairs whose image and caption are both in the source."""
    everything, ratings = read_photographs(settings["path"]), read_ratings(settings["path"])
    found = everything.joined(tables["sentences"], settings["images"])
    unknown = sorted({*ratings["image"], *ratings["report"]} - set(everything.names.tolist()))
    if unknown:
        raise UserError(
            f"{RATINGS}: rates {len(unknown):,} images that are not there, such as {unknown[0]}; expected those of Flickr8k. Get "
            "the whole data set."
        )
    rated = ratings[ratings[["image", "report"]].isin(found.reports).all(axis=1)].reset_index(drop=True)
    log.info("%s pairs of a photograph and a caption are rated", f"{len(rated):,}")
    return replace(found, tables={**found.tables, "ratings": rated})


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is missing of the folder ``path``."""
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


def read_ratings(path: str | Path | None) -> pd.DataFrame:
    """What three experts said of how well captions describe images, most of them of other images.

    1: the caption does not describe the image at all; 2: minor aspects of it; 3: almost, with minor mistakes; 4: it does.

    Args:
        path: folder in one of the layouts of this module.

    Returns:
        A row for each pair: ``image``; the caption's ``report`` (the image that it was written for) and ``index`` (0 to 4); and
        ``rating 1``, ``rating 2``, ``rating 3``.

    Raises:
        UserError: naming the line that is not of this form.
    """
    folder = required_path(path, "flickr8k", RATINGS)
    file = find_text(folder, RATINGS)
    if file is None:
        raise UserError(f"{folder}: has no {RATINGS} (found {contents(folder)}), the human ratings. {TEXTS_FROM}")
    pattern = r"([^\t]+)\t([^\t]+)#([0-4])\t([1-4])\t([1-4])\t([1-4])"
    expected = "an image, a caption's id and three ratings from 1 to 4, with tabs between"
    lines = matching_lines(file, pattern, expected, TEXTS_FROM)
    table = pd.DataFrame([match.groups() for _, match in lines], columns=RATING_COLUMNS)
    twice = table.duplicated(["image", "report", "index"])
    again = "rates a pair that an earlier line rates, expected each once. Copy it again."
    refuse([f"{file}: line {lines[row][0]:,} {again}" for row in np.flatnonzero(twice)])
    return table.astype(dict.fromkeys(RATING_COLUMNS[2:], np.int64))


def find_text(folder: Path, name: str) -> Path | None:
    """One of the text files; None if it is not there."""
    return next((path for path in (folder / name, folder / "Flickr8k_text" / name) if path.is_file()), None)


def _images_folder(folder: Path) -> Path | None:
    return next((root for root in (folder / "Flicker8k_Dataset", folder / "Flickr8k_Dataset") if root.is_dir()), None)


def _official(folder: Path) -> Photographs:
    root = _images_folder(folder)
    if root is None:
        raise UserError(
            f"{folder}: has no folder Flicker8k_Dataset (found {contents(folder)}); unpack Flickr8k_Dataset.zip there."
        )
    captions = read_captions(find_text(folder, CAPTIONS), TEXTS_FROM)
    captions.pop(WITHOUT_IMAGE, None)
    splits, mistakes = {}, []
    for split, name in SPLIT_LISTS.items():
        file = find_text(folder, name)
        if file is None:
            raise UserError(f"{folder}: has no {name}, the images of the official {split} split. {TEXTS_FROM}")
        for number, match in matching_lines(file, ".*", "an image", TEXTS_FROM):
            image = match[0]
            if image not in captions:
                mistakes.append(f"{file}: line {number:,} is {image}, which {CAPTIONS} has no captions of. {TEXTS_FROM}")
            if splits.setdefault(image, split) != split:
                mistakes.append(f"{file}: line {number:,}, {image}, is in {SPLIT_LISTS[splits[image]]} too, expected one split.")
    refuse(mistakes)
    return Photographs.in_folder(root, captions, splits, "Unpack Flickr8k_Dataset.zip again.")
