"""Load an image source by name."""

import importlib
import logging
from pathlib import Path
from typing import Any

from trueneg.data.identical_images import describe_identical
from trueneg.data.images.image_source import ImageSource, write_source
from trueneg.data.images.labels import refuse_ambiguous
from trueneg.data.images.subsets import DRAWING
from trueneg.errors import UserError
from trueneg.specs.sections import Section
from trueneg.specs.sources import OWN, data_name
from trueneg.specs.tasks.base import GROUPS

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
        )
    size = " × ".join(map(str, loaded.images.shape[1:]))
    logger.info(
        f"{source}: {len(loaded.images):,} images of {size} pixels, {len(loaded.class_names)}"
        f" classes, {loaded.is_test.sum():,} official test images"
    )
    if identical := describe_identical(loaded.images):
        logger.warning(f"{source}: {identical}")
    return loaded


def drawing_settings(source: ImageSource, dataset: Section) -> dict[str, Any]:
    """Return a data set's settings for :func:`trueneg.data.images.subsets.make_subset`, checked
    against the source.

    Raises:
        UserError: if a number in `rare_classes` is ambiguous, a class has the name of a group of
            classes, or the source has no test images and `test` is not set.
    """
    if reserved := [name for name in source.class_names if name in GROUPS]:
        raise UserError(
            f"{dataset.get('path')} has a class named {reserved[0]}; expected other names than"
            f" {', '.join(GROUPS)}, which are those of groups of classes; rename it."
        )
    refuse_ambiguous(dataset["rare_classes"], source.class_names)
    if dataset["source"] in OWN and dataset["test"] is None and not source.is_test.any():
        raise UserError(
            f"{dataset['path']} has no test images, and dataset.test is not set; set dataset.test"
            " to the share of the images to hold out, such as 0.25."
        )
    return {key: dataset[key] for key in DRAWING}


def prepare_source(settings: Section, path: str | Path) -> None:
    """Load a source with `settings`, the arguments of :func:`load_source`, and write it to an .npz
    file.
    """
    write_source(load_source(**settings), path)
