"""Flickr8k: photographs with captions, and what people say of captions of OTHER photographs, which measures false negatives."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.pairs.flickr_files import EACH, RATINGS, Photographs, missing_files, read_photographs, read_ratings, user_files
from trueneg.data.pairs.image_pairs import joined_sentences, write_image_pairs, write_sentences
from trueneg.data.pairs.pair_source import beside
from trueneg.errors import UserError
from trueneg.text import privacy

__all__ = ["missing_files", "prepare", "user_files", "write_captions"]

log = logging.getLogger(__name__)


def write_captions(
    settings: Mapping[str, Any], *, sentences: str | Path, unique: str | Path, cache: str | Path | None = None, processes: int = 1
) -> None:
    """The captions as sentences: a photograph is a report of five, and its own patient.

    Args:
        settings: ``path`` (a folder in a layout of :mod:`trueneg.data.pairs.flickr_files`).
        sentences, unique: parquet files to write (:func:`trueneg.data.pairs.image_pairs.write_sentences`).
        cache, processes: unused: captions are not split.

    Raises:
        UserError: if a file is missing or of another layout.
    """
    write_caption_sentences(read_photographs(settings["path"]), sentences=sentences, unique=unique)


def write_caption_sentences(photographs: Photographs, *, sentences: str | Path, unique: str | Path) -> None:
    """The captions of photographs as sentences; files as for :func:`trueneg.data.pairs.image_pairs.write_sentences`."""
    write_sentences(_captions(photographs), sentences=sentences, unique=unique, restricted=False)


def prepare(
    settings: Mapping[str, Any], text: Mapping[str, str | Path], pairs: str | Path, *, cache: str | Path, threads: int
) -> None:
    """Join the photographs, in colour, with their captions. No class of a caption is known, and there are no labels.

    Args:
        settings: as for :func:`write_captions`, ``images`` (how many, the first; None: all), and ``resolution``.
        text: parquet files by name: ``sentences`` of :func:`write_captions`, and ``eta`` of
            :func:`trueneg.text.eta.write_class_probabilities` (without it no class probability is known).
        pairs: .npz file to write, the sentences and the other tables beside it:
            ``splits`` has ``report``, ``split`` (train, validation, test, unassigned); ``ratings`` the experts' ratings
            (:func:`trueneg.data.pairs.flickr_files.read_ratings`) of those pairs whose image and caption are both in the source.
        cache: folder of the decoded images.
        threads: that decode.

    Raises:
        UserError: if something is missing or damaged, or the tables do not belong together.
    """
    everything = read_photographs(settings["path"])
    chosen = everything.first(settings["images"])
    rated = _known_ratings(read_ratings(settings["path"]), everything.names, chosen.names)
    restricted = write_photographs(
        "flickr8k",
        chosen,
        text,
        pairs,
        resolution=settings["resolution"],
        cache=cache,
        threads=threads,
    )
    privacy.write_table(rated, beside(pairs, "ratings"), restricted)
    log.info("%s pairs of a photograph and a caption are rated", f"{len(rated):,}")


def write_photographs(
    name: str,
    chosen: Photographs,
    text: Mapping[str, str | Path],
    pairs: str | Path,
    *,
    resolution: int,
    cache: str | Path,
    threads: int,
) -> bool:
    """Join photographs, in colour, with their captions.

    Args:
        name: of the source.
        chosen: photographs.
        resolution: side of the squares that are made of them, in pixels.
        text, pairs, cache, threads: as for :func:`prepare`.

    Returns:
        Whether the captions are restricted.

    Raises:
        UserError: if something is missing or damaged, or the tables do not belong together.
    """
    table, restricted = joined_sentences(text["sentences"], chosen.names, eta=text.get("eta"))
    if len(table) != EACH * len(chosen.names):
        found = f"{len(table):,} captions of the {len(chosen.names):,} photographs, expected {EACH} of each"
        raise UserError(f"{text['sentences']}: has {found}. Remove it to have it made again from the same files.")
    write_image_pairs(
        name,
        chosen.images,
        mode="RGB",
        resolution=resolution,
        cache=cache,
        pairs=pairs,
        threads=threads,
        restricted=restricted,
        reports=chosen.names,
        patients=chosen.names,
        sentences=table,
        labels=np.zeros((len(chosen.names), 0), np.float32),
        label_names=(),
        shown=np.zeros((len(chosen.names), 0), bool),
    )
    privacy.write_table(pd.DataFrame({"report": chosen.names, "split": chosen.splits}), beside(pairs, "splits"), restricted)
    return restricted


def _captions(photographs: Photographs) -> pd.DataFrame:
    rows = [
        (name, name, index, caption)
        for name, own in zip(photographs.names.tolist(), photographs.captions, strict=True)
        for index, caption in enumerate(own)
    ]
    return pd.DataFrame(rows, columns=["report", "patient", "index", "sentence"])


def _known_ratings(ratings: pd.DataFrame, names: np.ndarray, chosen: np.ndarray) -> pd.DataFrame:
    unknown = sorted({*ratings["image"], *ratings["report"]} - set(names.tolist()))
    if unknown:
        raise UserError(
            f"{RATINGS}: rates {len(unknown):,} images that are not there, such as {unknown[0]}; expected those of Flickr8k. Get "
            "the whole data set."
        )
    return ratings[ratings["image"].isin(chosen) & ratings["report"].isin(chosen)].reset_index(drop=True)
