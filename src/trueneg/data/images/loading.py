"""Load an image source by name."""

import importlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trueneg.data.images.image_source import ImageSource, write_source

logger = logging.getLogger(__name__)


def load_source(
    name: str, *, path: str | Path | None = None, resolution: int | None = None, download: bool = False
) -> ImageSource:
    """Read and decode all images of a source.

    Args:
        name: one of :data:`trueneg.specs.sources.IMAGE_SOURCES`.
        path: folder of the source's files; None for sources that come with a package.
        resolution: side in pixels of the square that images are resized to; None keeps the original size.
        download: whether to download the source into `path` if it is missing.

    Raises:
        UserError: if files of the source are missing, damaged or have an unexpected layout.

    Example:
        >>> load_source("digits").images.shape
        (1797, 1, 8, 8)
    """
    source = importlib.import_module(f"trueneg.data.images.sources.{name}").load(path, resolution=resolution, download=download)
    size, classes, tests = " × ".join(map(str, source.images.shape[1:])), len(source.class_names), source.is_test.sum()
    logger.info(f"{name}: {len(source.images):,} images of {size} pixels, {classes} classes, {tests:,} official test images")
    return source


def prepare_source(settings: Mapping[str, Any], path: str | Path) -> None:
    """Load the source specified by a dataset's settings and write its images to an .npz file."""
    options = {key: settings[key] for key in ("path", "resolution", "download")}
    write_source(load_source(settings["source"], **options), path)
