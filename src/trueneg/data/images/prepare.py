"""The pipeline's first two steps: decode a source once, then draw the subsets of the seeds."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trueneg.data.images.image_source import read_source, write_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import make_subset, write_subsets

logger = logging.getLogger(__name__)

DRAWING = ("fraction", "rare_classes", "images_per_class", "validation", "test")


def prepare_source(settings: Mapping[str, Any], path: str | Path) -> None:
    """Read, check and decode a source, and write its images.

    Args:
        settings: ``source``, ``path``, ``resolution`` and ``download`` of a data set.
        path: npz file to write.

    Raises:
        UserError: if the source is missing, damaged or of another layout.
    """
    source = load_source(
        settings["source"], path=settings["path"], resolution=settings["resolution"], download=settings["download"]
    )
    write_source(source, path)


def draw_image_subsets(source: str | Path, settings: Mapping[str, Any], seeds: Sequence[int], path: str | Path) -> None:
    """Draw the splits and the imbalanced subset of each seed.

    Args:
        source: decoded images (npz).
        settings: resolved settings of the data set.
        seeds: whose subsets.
        path: parquet file to write.

    Raises:
        UserError: if the settings do not fit the source.
    """
    images = read_source(source)
    subsets = [make_subset(images, seed=seed, **{key: settings[key] for key in DRAWING}) for seed in seeds]
    for subset in subsets:
        logger.info("seed %d: %d training images, by class %s", subset.seed, len(subset.train), list(subset.class_counts))
    write_subsets(subsets, path)
