"""Flickr30k: photographs with five captions each, and the splits used in papers.

Official layout (Young et al., 2014) or Kaggle's layout, unpacked into one folder::

    flickr30k-images/<image>.jpg        or flickr30k_images/
    results_20130124.token              <image>.jpg#<0-4> TAB caption
    results.csv                         Kaggle: image_name| comment_number| comment, instead of
    results_20130124.token dataset_flickr30k.json              Karpathy's splits; its captions are
    read if neither file above exists

Alternatively, the folder contains the parquet files described in
:mod:`trueneg.data.pairs.photographs`.
"""

import json
from pathlib import Path

from pandas import DataFrame

from trueneg.data.images.folder import Part
from trueneg.data.pairs.pair_images import PairImages, Tables
from trueneg.data.pairs.photographs import (
    TOKEN_LINES,
    UNASSIGNED,
    PhotographSource,
    checked_photographs,
    joined,
    read_captions,
)
from trueneg.data.tables import Lines
from trueneg.errors import UserError
from trueneg.io.reading import reading
from trueneg.specs.sections import Section

PAGE = "https://shannon.cs.illinois.edu/DenotationGraph/"
SPLITS_PAGE = "https://cs.stanford.edu/people/karpathy/deepimagesent/"
ORIGIN = f"Request Flickr30k with the form at {PAGE}."
TOKENS = Part(("results_20130124.token",), "the captions", ORIGIN)
KAGGLE = Part(("results.csv",), "the captions", ORIGIN)
KARPATHY = Part(
    ("dataset_flickr30k.json",),
    "Karpathy's splits",
    f"It is in caption_datasets.zip ({SPLITS_PAGE}).",
)
IMAGES = Part(
    ("flickr30k-images", "flickr30k_images/flickr30k_images", "flickr30k_images", "images"),
    "the photographs",
    ORIGIN,
)
# One line of Kaggle's file lacks the second separator.
KAGGLE_LINES = Lines(
    r"(?P<image>(?P<malformed>2199200615\.jpg)|[^|]*\S)\s*\|\s*(?P<number>[0-4])\s*"
    r"(?:\||(?(malformed)(?<=\s)(?=[^|\s])|(?!)))(?P<caption>.*\S.*)",
    "an image's name, |, 0 to 4, | and a caption",
    header=1,
)


def read_images(settings: Section, tables: Tables, threads: int) -> PairImages:
    """Read the photographs, with the splits selected by ``split``."""
    table, images = SOURCE.read(settings["path"])
    return joined(
        select_splits(table, settings["split"], settings["path"]), images, settings["images"]
    )


def select_splits(table: DataFrame, split: str, path: str | Path | None) -> DataFrame:
    """Return the photographs with one of the splits used in papers.

    Args:
        table: photographs with Karpathy's splits.
        split: ``"karpathy"``: 29,000 photographs for training, 1,014 for validation and 1,000 for
            test; photographs that Karpathy left out are unassigned. ``"reco"``: the split of ReCo,
            which holds out 1,000 photographs and trains on others. The paper does not specify which
            ones are held out, so Karpathy's test photographs are used, and his validation
            photographs are added to the training set. The paper has no validation split; here,
            models are selected on the photographs that Karpathy left out, not on the test
            photographs.
        path: folder of the dataset, for the message.

    Raises:
        UserError: if ``split`` is ``"reco"`` but no photographs are unassigned, so none are left
            for validation.
    """
    if split == "karpathy":
        return table
    if UNASSIGNED not in set(table["split"]):
        raise UserError(
            f"{path}: Karpathy's splits contain all {len(table):,} photographs, but dataset.split:"
            f" reco selects models on others. Add {TOKENS.names[0]} with the captions of all"
            " photographs, or set dataset.split: karpathy."
        )
    return table.assign(
        split=table["split"].replace({"validation": "train", UNASSIGNED: "validation"})
    )


def _read_official(folder: Path) -> DataFrame:
    """Read the captions of all photographs, or only those in Karpathy's file if no other file has
    captions.
    """
    karpathy = KARPATHY.required(folder)
    table = checked_photographs(_read_karpathy(karpathy), karpathy, KARPATHY.origin)
    for part, layout in ((TOKENS, TOKEN_LINES), (KAGGLE, KAGGLE_LINES)):
        file = part.find(folder)
        if file is not None:
            return read_captions(file, table.set_index("image")["split"].to_dict(), ORIGIN, layout)
    return table


def _read_karpathy(file: Path) -> DataFrame:
    """Read the images of Karpathy's splits with the captions in his file."""
    with reading(file, "Karpathy's splits", KARPATHY.origin):
        images = json.loads(file.read_text(encoding="utf-8"))["images"]
        rows = [
            (
                image["filename"],
                [sentence["raw"] for sentence in image["sentences"]],
                image["split"],
            )
            for image in images
        ]
    table = DataFrame(rows, columns=["image", "captions", "split"])
    table["split"] = table["split"].replace("val", "validation")
    return table.set_axis([f"image {number:,} (the first is 0)" for number in range(len(table))])


SOURCE = PhotographSource(
    "flickr30k",
    "dataset_flickr30k.json, results_20130124.token and flickr30k-images/, or *.parquet",
    (KARPATHY,),
    IMAGES,
    _read_official,
    optional=(TOKENS, KAGGLE),
)
read_texts = SOURCE.read_texts
missing_files = SOURCE.missing_files
user_files = SOURCE.user_files
