"""Flickr30k: photographs with five captions each, and the splits that papers report on.

Official layout (Young et al., 2014), or as Kaggle has it, unpacked into one folder::

    flickr30k-images/<image>.jpg        or flickr30k_images/
    results_20130124.token              <image>.jpg#<0-4> TAB caption
    results.csv                         Kaggle's: image_name| comment_number| comment, in place of results_20130124.token
    dataset_flickr30k.json              Karpathy's splits; in place of captions in another file, its own are read

Or the parquet files of :mod:`trueneg.data.pairs.photographs`.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.images.folder import contents, required_path
from trueneg.data.mistakes import readable, refuse
from trueneg.data.pairs.pair_images import PairImages
from trueneg.data.pairs.photographs import EACH, UNASSIGNED, Photographs, photographs_in_parquet, read_captions, tidy
from trueneg.errors import UserError
from trueneg.io.files import UserFiles, files_in

log = logging.getLogger(__name__)

PAGE = "https://shannon.cs.illinois.edu/DenotationGraph/"
SPLITS_PAGE = "https://cs.stanford.edu/people/karpathy/deepimagesent/"
ORIGIN = f"Flickr30k is sent to those who fill in the form at {PAGE}."
ORIGIN_OF_SPLITS = f"It is in caption_datasets.zip of {SPLITS_PAGE}."
TOKENS, KAGGLE, KARPATHY = "results_20130124.token", "results.csv", "dataset_flickr30k.json"
IMAGES = ("flickr30k-images", "flickr30k_images/flickr30k_images", "flickr30k_images", "images")
SPLITS = {"train": "train", "val": "validation", "test": "test"}
EXPECTED = f"{KARPATHY}, {TOKENS} and {IMAGES[0]}/, or *.parquet"
# One line of Kaggle's file lacks its second separator.
KAGGLE_LINE = (
    r"(?P<image>(?P<malformed>2199200615\.jpg)|[^|]*\S)\s*\|\s*(?P<number>[0-4])\s*"
    r"(?:\||(?(malformed)(?<=\s)(?=[^|\s])|(?!)))(?P<caption>.*\S.*)"
)


def read_texts(settings: Mapping[str, Any]) -> pd.DataFrame:
    """The captions of the photographs in the folder ``path``."""
    return read_flickr30k(settings["path"]).texts()


def read_images(settings: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], threads: int) -> PairImages:
    """The photographs, with the splits that ``split`` names."""
    return read_flickr30k(settings["path"], settings["split"]).joined(tables["sentences"], settings["images"])


def read_flickr30k(path: str | Path | None, split: str = "karpathy") -> Photographs:
    """Flickr30k from a folder in one of the layouts of this module; no image is opened yet.

    Args:
        path: the folder.
        split: ``"karpathy"``: 29,000 photographs to train, 1,014 to validate, 1,000 to test, and those that Karpathy left out
            unassigned. ``"reco"``: as ReCo, which holds 1,000 out (which ones it does not say: Karpathy's test photographs are
            taken) and trains on others; Karpathy's validation photographs are trained on. The paper has no further split;
            choices are made here on those that Karpathy left out, and not on those that are reported.

    Raises:
        UserError: naming the file, and the line or row, that is missing or of another layout.
    """
    folder = required_path(path, "flickr30k", EXPECTED)
    files = sorted(folder.glob("*.parquet"))
    official = (folder / KARPATHY).is_file() or not files
    found = _official(folder) if official else photographs_in_parquet(files)
    if split == "karpathy":
        return found
    if not (found.splits == UNASSIGNED).any():
        raise UserError(
            f"{folder}: Karpathy's splits hold all of its {len(found.names):,} photographs, but dataset.split reco makes its "
            f"choices on the others. Add {TOKENS} with the captions of all, or set dataset.split to karpathy."
        )
    renamed = {"validation": "train", UNASSIGNED: "validation"}
    return replace(found, splits=np.array([renamed.get(name, name) for name in found.splits.tolist()]))


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is missing of the folder ``path``."""
    folder = required_path(settings["path"], "flickr30k", EXPECTED)
    if next(folder.glob("*.parquet"), None) is not None:
        return []
    found = []
    if not (folder / KARPATHY).is_file():
        found.append(f"{KARPATHY} in {folder}: Karpathy's splits, in caption_datasets.zip: {SPLITS_PAGE}")
    if _images_folder(folder) is None:
        found.append(f"the photographs, {IMAGES[0]}/ in {folder}: of Flickr30k, by a form: {PAGE}")
    return found


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The texts and photographs, or the parquet files, in the folder ``path``."""
    folder = required_path(settings["path"], "flickr30k", EXPECTED)
    if not (folder / KARPATHY).is_file():
        return UserFiles(list(folder.glob("*.parquet")))
    return UserFiles([folder / name for name in (KARPATHY, TOKENS, KAGGLE)], files_in(_images_folder(folder)))


def _images_folder(folder: Path) -> Path | None:
    return next((folder / name for name in IMAGES if (folder / name).is_dir()), None)


def _official(folder: Path) -> Photographs:
    if not (folder / KARPATHY).is_file():
        found = f"has no {KARPATHY} (found {contents(folder)}), the official splits"
        raise UserError(f"{folder}: {found}; expected {EXPECTED}. {ORIGIN_OF_SPLITS}")
    root = _images_folder(folder)
    if root is None:
        raise UserError(f"{folder}: has no folder {IMAGES[0]} (found {contents(folder)}), the photographs. {ORIGIN}")
    splits, captions = _karpathy(folder / KARPATHY)
    file = next((folder / name for name in (TOKENS, KAGGLE) if (folder / name).is_file()), None)
    if file is not None:
        kaggle = {"pattern": KAGGLE_LINE, "expected": "an image's name, |, 0 to 4, | and a caption", "header": 1}
        captions = read_captions(file, ORIGIN, **(kaggle if file.name == KAGGLE else {}))
        lacking = sorted(splits.keys() - captions.keys())
        refuse([f"{file}: has no captions of {name}, which is in {KARPATHY}. {ORIGIN}" for name in lacking])
    return Photographs.in_folder(root, captions, splits, ORIGIN)


def _karpathy(file: Path) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The split of each image, and its captions."""
    with readable(file, "Karpathy's splits", ORIGIN_OF_SPLITS):
        images = json.loads(file.read_text(encoding="utf-8"))["images"]
        rows = [(image["filename"], image["split"], [sentence["raw"] for sentence in image["sentences"]]) for image in images]
    splits, captions, mistakes = {}, {}, []
    for place, (name, split, texts) in enumerate(rows):
        where = f"{file}: image {place:,} (the first is 0)"
        if not isinstance(name, str) or not name or name in splits:
            mistakes.append(f"{where} has the file name {name!r}, expected one that no earlier image has. {ORIGIN_OF_SPLITS}")
            continue
        if split not in SPLITS:
            mistakes.append(f"{where} is in split {split!r}, expected train, val or test. {ORIGIN_OF_SPLITS}")
        if len(texts) != EACH or not all(isinstance(text, str) and text.strip() for text in texts):
            mistakes.append(f"{where} has {len(texts)} captions, expected {EACH} with text. {ORIGIN_OF_SPLITS}")
            continue
        splits[name], captions[name] = SPLITS.get(split, ""), [tidy(text) for text in texts]
    refuse(mistakes)
    if not rows:
        raise UserError(f"{file}: has no images. {ORIGIN_OF_SPLITS}")
    return splits, captions
