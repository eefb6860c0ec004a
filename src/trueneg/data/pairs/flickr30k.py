"""Flickr30k: photographs with five captions each, and the splits used in papers.

Official layout (Young et al., 2014) or Kaggle's layout, unpacked into one folder::

    flickr30k-images/<image>.jpg        or flickr30k_images/
    results_20130124.token              <image>.jpg#<0-4> TAB caption
    results.csv                         Kaggle: image_name| comment_number| comment, instead of results_20130124.token
    dataset_flickr30k.json              Karpathy's splits; its captions are read if no other file has them

Alternatively, the parquet files described in :mod:`trueneg.data.pairs.photographs`.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.images.folder import Part, found_parts, missing_parts, required_path
from trueneg.data.mistakes import readable, refuse
from trueneg.data.pairs.pair_images import PairImages
from trueneg.data.pairs.photographs import (
    UNASSIGNED,
    Photographs,
    checked_photographs,
    photographs_in_folder,
    photographs_in_parquet,
    read_captions,
    with_splits,
)
from trueneg.errors import UserError
from trueneg.io.files import UserFiles, files_in

PAGE = "https://shannon.cs.illinois.edu/DenotationGraph/"
SPLITS_PAGE = "https://cs.stanford.edu/people/karpathy/deepimagesent/"
ORIGIN = f"Flickr30k is sent to those who fill in the form at {PAGE}."
TOKENS = Part(("results_20130124.token",), "the captions", ORIGIN)
KAGGLE = Part(("results.csv",), "the captions", ORIGIN)
KARPATHY = Part(("dataset_flickr30k.json",), "Karpathy's splits", f"It is in caption_datasets.zip of {SPLITS_PAGE}.")
IMAGES = Part(("flickr30k-images", "flickr30k_images/flickr30k_images", "flickr30k_images", "images"), "the photographs", ORIGIN)
EXPECTED = "dataset_flickr30k.json, results_20130124.token and flickr30k-images/, or *.parquet"
# One line of Kaggle's file lacks the second separator.
KAGGLE_LINE = (
    r"(?P<image>(?P<malformed>2199200615\.jpg)|[^|]*\S)\s*\|\s*(?P<number>[0-4])\s*"
    r"(?:\||(?(malformed)(?<=\s)(?=[^|\s])|(?!)))(?P<caption>.*\S.*)"
)
KAGGLE_EXPECTED = "an image's name, |, 0 to 4, | and a caption"


def read_texts(settings: Mapping[str, Any]) -> pd.DataFrame:
    """Read the captions of the photographs in the folder ``path``."""
    return read_flickr30k(settings["path"]).texts()


def read_images(settings: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], threads: int) -> PairImages:
    """Read the photographs, with the splits selected by ``split``."""
    return read_flickr30k(settings["path"], settings["split"]).joined(settings["images"])


def read_flickr30k(path: str | Path | None, split: str = "karpathy") -> Photographs:
    """Read Flickr30k from a folder in one of the layouts of this module, without opening any image.

    Args:
        path: folder of the dataset.
        split: ``"karpathy"``: 29,000 photographs for training, 1,014 for validation and 1,000 for test; photographs that
            Karpathy left out are unassigned. ``"reco"``: the split of ReCo, which holds out 1,000 photographs and trains on
            others. The paper does not specify which ones are held out, so Karpathy's test photographs are used, and his
            validation photographs are added to the training set. The paper has no validation split; here, models are selected
            on the photographs that Karpathy left out, not on the test photographs.

    Raises:
        UserError: names the missing file, or the file and line or row with an unexpected layout.
    """
    folder = required_path(path, "flickr30k", EXPECTED)
    files = sorted(folder.glob("*.parquet"))
    found = photographs_in_parquet(files) if files and KARPATHY.find(folder) is None else _official(folder)
    if split == "karpathy":
        return found
    if not (found.splits == UNASSIGNED).any():
        raise UserError(
            f"{folder}: Karpathy's splits hold all of its {len(found.names):,} photographs, but dataset.split reco makes its "
            f"choices on the others. Add {TOKENS.names[0]} with the captions of all, or set dataset.split to karpathy."
        )
    renamed = {"validation": "train", UNASSIGNED: "validation"}
    return replace(found, splits=np.array([renamed.get(name, name) for name in found.splits.tolist()]))


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """Report what is missing in the folder ``path``."""
    folder = required_path(settings["path"], "flickr30k", EXPECTED)
    return [] if any(folder.glob("*.parquet")) else missing_parts(folder, (KARPATHY, IMAGES))


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """Return the texts and photographs, or the parquet files, in the folder ``path``."""
    folder = required_path(settings["path"], "flickr30k", EXPECTED)
    if KARPATHY.find(folder) is None:
        return UserFiles(list(folder.glob("*.parquet")))
    return UserFiles(found_parts(folder, (KARPATHY, TOKENS, KAGGLE)), files_in(IMAGES.find(folder)))


def _official(folder: Path) -> Photographs:
    karpathy, root = KARPATHY.required(folder), IMAGES.required(folder)
    table = checked_photographs(_karpathy(karpathy), karpathy, KARPATHY.origin)
    tokens, kaggle = TOKENS.find(folder), KAGGLE.find(folder)
    file = tokens or kaggle
    if file is not None:
        if tokens is not None:
            captions = read_captions(tokens, ORIGIN)
        else:
            captions = read_captions(file, ORIGIN, pattern=KAGGLE_LINE, expected=KAGGLE_EXPECTED, header=1)
        lacking = sorted(set(table["image"]) - set(captions.index))
        refuse([f"{file}: has no captions of {name}, which is in {karpathy.name}. {ORIGIN}" for name in lacking])
        splits = table.set_index("image")["split"].to_dict()
        table = checked_photographs(with_splits(captions, splits), file, ORIGIN)
    return photographs_in_folder(root, table, ORIGIN)


def _karpathy(file: Path) -> pd.DataFrame:
    """Read the images of Karpathy's splits with the captions in his file."""
    with readable(file, "Karpathy's splits", KARPATHY.origin):
        images = json.loads(file.read_text(encoding="utf-8"))["images"]
        rows = [(image["filename"], [sentence["raw"] for sentence in image["sentences"]], image["split"]) for image in images]
    table = pd.DataFrame(rows, columns=["image", "captions", "split"])
    table["split"] = table["split"].replace("val", "validation")
    return table.set_axis([f"image {number:,} (the first is 0)" for number in range(len(table))])
