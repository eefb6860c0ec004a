"""Flickr8k: photographs with captions, and human ratings of captions written for OTHER photographs,
which reveal false negatives.

Official layout (Hodosh, Young and Hockenmaier, 2013: Flickr8k_Dataset.zip and Flickr8k_text.zip,
unpacked into one folder)::

    Flicker8k_Dataset/<image>.jpg                     official spelling; Flickr8k_Dataset/ is read
    too Flickr8k.token.txt                                <image>.jpg#<0-4> TAB caption
    Flickr_8k.{train,dev,test}Images.txt              one line per image ExpertAnnotations.txt
    image TAB caption id TAB three ratings, 1 to 4

Alternatively, the folder contains the parquet files described in
:mod:`trueneg.data.pairs.photographs` and ``ExpertAnnotations.txt``. The text files may be in a
subfolder ``Flickr8k_text``.
"""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
from pandas import DataFrame

from trueneg.data.images.folder import Part, required_path
from trueneg.data.mistakes import COPY_AGAIN
from trueneg.data.pairs.pair_images import PairImages, Tables
from trueneg.data.pairs.photographs import PhotographSource, joined, read_captions
from trueneg.data.tables import Lines, read_lines, refuse_rows, wrong_values
from trueneg.errors import UserError
from trueneg.specs.sections import Section

log = logging.getLogger(__name__)


def _text(name: str, what: str) -> Part:
    return Part((name, f"Flickr8k_text/{name}"), what, "It is in Flickr8k_text.zip.")


CAPTIONS = _text("Flickr8k.token.txt", "the captions")
RATINGS = _text("ExpertAnnotations.txt", "the human ratings")
SPLIT_LISTS = {
    "train": _text("Flickr_8k.trainImages.txt", "the official training images"),
    "validation": _text("Flickr_8k.devImages.txt", "the official validation images"),
    "test": _text("Flickr_8k.testImages.txt", "the official test images"),
}
IMAGES = Part(
    ("Flicker8k_Dataset", "Flickr8k_Dataset"),
    "the photographs",
    "Unpack Flickr8k_Dataset.zip there.",
)
# The official captions include five for an image that the image folder does not contain.
WITHOUT_IMAGE = "2258277193_586949ec62.jpg.1"
RATED = ["rating 1", "rating 2", "rating 3"]
RATING_LINES = Lines(
    r"(?P<image>[^\t]+)\t(?P<report>[^\t]+)#(?P<index>[0-4])"
    r"\t(?P<first>[1-4])\t(?P<second>[1-4])\t(?P<third>[1-4])",
    "an image, a caption's id and three ratings from 1 to 4, separated by tabs",
)
IMAGE_LINES = Lines("(?P<image>.*)", "an image")


def read_images(settings: Section, tables: Tables, threads: int) -> PairImages:
    """Read the photographs, with the ratings of pairs whose image and caption are both in the
    source.
    """
    table, images = SOURCE.read(settings["path"])
    ratings = read_ratings(settings["path"])
    unknown = sorted({*ratings["image"], *ratings["report"]} - set(table["image"]))
    if unknown:
        raise UserError(
            f"{RATINGS.names[0]} rates {len(unknown):,} images that are missing from the folder,"
            f" such as {unknown[0]}; copy the whole dataset."
        )
    chosen = table["image"][: settings["images"]].tolist()
    rated = ratings[ratings[["image", "report"]].isin(chosen).all(axis=1)].reset_index(drop=True)
    log.info(f"{len(rated):,} photograph–caption pairs have ratings")
    return joined(table, images, settings["images"], ratings=rated)


def read_ratings(path: str | Path | None) -> DataFrame:
    """Read three experts' ratings of how well captions describe images; most captions were written
    for other images.

    1: the caption does not describe the image at all; 2: it describes minor aspects; 3: it almost
    describes the image, with minor mistakes; 4: it describes the image.

    Args:
        path: folder in one of the layouts described in this module.

    Returns:
        One row per pair: ``image``; the caption's ``report`` (the image it was written for) and
            ``index`` (0 to 4); and ``rating 1``, ``rating 2``, ``rating 3``.

    Raises:
        UserError: names the invalid line.
    """
    file = RATINGS.required(required_path(path, "flickr8k", RATINGS.names[0]))
    table = read_lines(file, RATING_LINES, RATINGS.origin)
    twice = [
        f"{place} rates the same pair as an earlier line; expected each pair once."
        for place in table.index[table.duplicated(["image", "report", "index"])]
    ]
    refuse_rows(file, twice, COPY_AGAIN)
    table.columns = pd.Index(["image", "report", "index", *RATED])
    return table.astype(dict.fromkeys(("index", *RATED), np.int64)).reset_index(drop=True)


def _read_official(folder: Path) -> DataFrame:
    splits: dict[str, str] = {}
    for split, part in SPLIT_LISTS.items():
        file = part.required(folder)
        images = read_lines(file, IMAGE_LINES, part.origin)
        mistakes = wrong_values(
            images, "image", images["image"].isin(splits), "an image that is in no other split"
        )
        refuse_rows(file, mistakes, part.origin)
        splits |= dict.fromkeys(images["image"], split)
    table = read_captions(CAPTIONS.required(folder), splits, CAPTIONS.origin)
    return table[table["image"] != WITHOUT_IMAGE]


SOURCE = PhotographSource(
    "flickr8k",
    "Flickr8k.token.txt, its split lists and Flicker8k_Dataset/, or *.parquet",
    (CAPTIONS, *SPLIT_LISTS.values(), RATINGS),
    IMAGES,
    _read_official,
)
read_texts = SOURCE.read_texts
missing_files = SOURCE.missing_files
user_files = SOURCE.user_files
