"""Load an image source by name."""

import importlib
import logging
import math
from pathlib import Path

from trueneg.data.arrays import size_of
from trueneg.data.identical_images import describe_identical
from trueneg.data.images.image_source import ImageSource, write_source
from trueneg.errors import UserError
from trueneg.specs.sections import Section
from trueneg.specs.sources import OWN, data_name

logger = logging.getLogger(__name__)


def load_source(
    source: str,
    *,
    path: str | Path | None = None,
    resolution: int | None = None,
    download: bool = False,
    unlabelled: int | None = None,
    skip_incomplete: float = False,
    decoded: float = math.inf,
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
        decoded: most of the user's own images to decode, as in
            :func:`trueneg.data.images.pixels.decoded_source`.

    Raises:
        UserError: if files of the source are missing, damaged or have an unexpected layout.

    Example:
        >>> load_source("digits").images.shape
        (1797, 1, 8, 8)
    """
    reader = importlib.import_module(f"trueneg.data.images.sources.{source}")
    if source not in OWN:
        # only some sources have unlabelled images
        further = {"unlabelled": unlabelled} if unlabelled else {}
        loaded = reader.load(path, resolution=resolution, download=download, **further)
    elif download:
        raise UserError(
            f"dataset.download is true, but source {source} reads your own files; remove"
            " dataset.download."
        )
    else:
        # imports pillow, which takes time
        from trueneg.data.images.pixels import decoded_source

        loaded = decoded_source(
            data_name(source, path),
            reader.listed(path),
            place=path,
            resolution=resolution,
            skip_incomplete=skip_incomplete,
            decoded=decoded,
        )
    logger.info(f"{source}: {loaded.summary}")
    if size_of(loaded.images) and (identical := describe_identical(loaded.images)):
        logger.warning(f"{source}: {identical}")
    return loaded


def prepare_source(settings: Section, path: str | Path) -> None:
    """Load a source with `settings`, the arguments of :func:`load_source`, and write it to an .npz
    file.
    """
    write_source(load_source(**settings), path)


def first_look(settings: Section, cache: Path, decoded: float) -> tuple[ImageSource, None]:
    """Load a source as :func:`prepare_source` does, but open images beyond the number `decoded`."""
    return load_source(**settings, decoded=decoded), None
