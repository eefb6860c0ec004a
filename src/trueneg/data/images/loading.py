"""Loads an image source by its name."""

import importlib
import logging
import time
from pathlib import Path

from trueneg.data.images.image_source import ImageSource
from trueneg.errors import UserError
from trueneg.specs.sources import IMAGE_SOURCES

logger = logging.getLogger(__name__)


def load_source(
    name: str, *, path: str | Path | None = None, resolution: int | None = None, download: bool = False
) -> ImageSource:
    """Read and decode all images of a source.

    Args:
        name: one of :data:`trueneg.specs.sources.IMAGE_SOURCES`.
        path: folder of the source's files; None for those that come with a package.
        resolution: side in pixels of the square that images are resized to; None: as they are.
        download: fetch the source into `path` when it is not there.

    Raises:
        UserError: if there is no such source, or its files are missing, damaged or of another layout.

    Example:
        >>> load_source("digits").images.shape
        (1797, 1, 8, 8)
    """
    if name not in IMAGE_SOURCES:
        raise UserError(f"dataset.source is {name!r}, expected one of {', '.join(IMAGE_SOURCES)}.")
    if resolution is not None and resolution < 1:
        raise UserError(f"dataset.resolution is {resolution}, expected at least 1 pixel.")
    start = time.perf_counter()
    source = importlib.import_module(f"trueneg.data.images.sources.{name}").load(path, resolution=resolution, download=download)
    logger.info(
        "%s: %s images of %s pixels, %d classes, %s official test images; read in %.1f s",
        name,
        f"{len(source.images):,}",
        " × ".join(map(str, source.images.shape[1:])),
        len(source.class_names),
        f"{source.is_test.sum():,}",
        time.perf_counter() - start,
    )
    return source
