"""Load an image source by name."""

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueneg.data.identical_images import describe_identical
from trueneg.data.images.image_source import ImageSource, write_source

logger = logging.getLogger(__name__)


def load_source(
    source: str,
    *,
    path: str | Path | None = None,
    resolution: int | None = None,
    download: bool = False,
    unlabelled: int | None = None,
    skip_incomplete: float = False,
) -> ImageSource:
    """Read and decode all images of a source.

    Args:
        source: one of :data:`trueneg.specs.sources.IMAGE_SOURCES`.
        path: folder of the source's files; None for sources that are included in an installed
            package.
        resolution: side in pixels of the square that images are resized to; None keeps the original
            size.
        download: whether to download the source into `path` if it is missing.
        unlabelled: number of unlabelled images to add; at most the number in
            :data:`trueneg.specs.sources.UNLABELLED`.
        skip_incomplete: how many unusable images may be left out of the user's own
            (:class:`trueneg.data.skipping.Skipped`).

    Raises:
        UserError: if files of the source are missing, damaged or have an unexpected layout.

    Example:
        >>> load_source("digits").images.shape
        (1797, 1, 8, 8)
    """
    options = {
        "resolution": resolution,
        "download": download,
        "unlabelled": unlabelled,
        "skip_incomplete": skip_incomplete,
    }
    # most sources have only the first two
    options = {name: value for name, value in options.items() if value}
    loaded = importlib.import_module(f"trueneg.data.images.sources.{source}").load(path, **options)
    size, classes, tests = (
        " × ".join(map(str, loaded.images.shape[1:])),
        len(loaded.class_names),
        loaded.is_test.sum(),
    )
    logger.info(
        f"{source}: {len(loaded.images):,} images of {size} pixels, {classes} classes, {tests:,}"
        " official test images"
    )
    if identical := describe_identical(loaded.images):
        logger.warning(f"{source}: {identical}")
    return loaded


def prepare_source(settings: Mapping[str, Any], path: str | Path) -> None:
    """Load a source with `settings`, the arguments of :func:`load_source`, and write it to an .npz
    file.
    """
    write_source(load_source(**settings), path)
