"""Flickr30k: photographs with five captions each, and the splits that papers report on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueneg.data.pairs.flickr8k import write_caption_sentences, write_photographs
from trueneg.data.pairs.flickr30k_files import missing_files, read_flickr30k, user_files

__all__ = ["missing_files", "prepare", "user_files", "write_captions"]


def write_captions(
    settings: Mapping[str, Any], *, sentences: str | Path, unique: str | Path, cache: str | Path | None = None, processes: int = 1
) -> None:
    """The captions as sentences: a photograph is a report of five, and its own patient.

    Args:
        settings: ``path`` (a folder in a layout of :mod:`trueneg.data.pairs.flickr30k_files`).
        sentences, unique: parquet files to write (:func:`trueneg.data.pairs.image_pairs.write_sentences`).
        cache, processes: unused: captions are not split.

    Raises:
        UserError: if a file is missing or of another layout.
    """
    write_caption_sentences(read_flickr30k(settings["path"]), sentences=sentences, unique=unique)


def prepare(
    settings: Mapping[str, Any], text: Mapping[str, str | Path], pairs: str | Path, *, cache: str | Path, threads: int
) -> None:
    """Join the photographs, in colour, with their captions. No class of a caption is known, and there are no labels.

    Args:
        settings: as for :func:`write_captions`, ``images`` (how many, the first by name; None: all), ``resolution``,
            and ``split`` (karpathy or reco, as for :func:`trueneg.data.pairs.flickr30k_files.read_flickr30k`).
        text: parquet files by name: ``sentences`` of :func:`write_captions`, and ``eta`` of
            :func:`trueneg.text.eta.write_class_probabilities` (without it no class probability is known).
        pairs: .npz file to write, the sentences and the other tables beside it:
            ``splits`` has ``report``, ``split`` (train, validation, test, unassigned).
        cache: folder of the decoded images.
        threads: that decode.

    Raises:
        UserError: if something is missing or damaged, or the tables do not belong together.
    """
    write_photographs(
        "flickr30k",
        read_flickr30k(settings["path"], settings["split"]).first(settings["images"]),
        text,
        pairs,
        resolution=settings["resolution"],
        cache=cache,
        threads=threads,
    )
