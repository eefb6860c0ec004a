"""Decode all images of a source into one array."""

import itertools
import logging
from pathlib import Path
from typing import Any

import numpy as np

from trueneg.data.decoding import UnreadableImageError, decode_images, open_image
from trueneg.data.images.image_source import ImageSource, ListedImages
from trueneg.data.mistakes import refuse
from trueneg.data.skipping import Skipped
from trueneg.errors import UserError

GREY_MODES = {"1", "L", "LA", "I", "I;16", "I;16B"}
IMAGES_PER_BATCH = 4096  # bounds the encoded bytes in memory

logger = logging.getLogger(__name__)


def decoded_source(
    name: str,
    listed: ListedImages,
    *,
    place: Path,
    mode: str | None = None,
    resolution: int | None = None,
    skip_incomplete: float = False,
) -> ImageSource:
    """Decode same-size images, or resize to one size, and leave out unusable ones if `skip_incomplete` allows it.

    Args:
        name: name of the source.
        listed: n encoded images, at least one.
        place: folder of the images, for messages.
        mode: ``"L"`` (greyscale) or ``"RGB"``; None: greyscale if all readable images are, else RGB.
        resolution: side in pixels of the square to resize to; None keeps the original size.
        skip_incomplete: how many unusable images may be left out, as in :class:`Skipped`.

    Raises:
        UserError: names all images that are unusable, unless they may be left out, or that, without `resolution`, differ in size
            from the first; also if a class loses all of its training, validation or test images.
    """
    images, labels, is_test, class_names, is_validation = listed
    mode = mode or ("L" if all(map(is_grey, images.read())) else "RGB")
    skipped = Skipped(place, len(images), "images", skip_incomplete)
    pixels: Any = None
    usable = np.zeros(len(images), bool)
    mistakes: list[str] = []
    differing: list[str] = []
    contents = images.read()
    batches = iter(lambda: list(itertools.islice(contents, IMAGES_PER_BATCH)), [])
    for position, image in enumerate(itertools.chain.from_iterable(decode_images(some, mode, resolution) for some in batches)):
        if isinstance(image, UnreadableImageError):
            skipped.add(image.kind, 1)
            mistakes.append(f"{images.name(position)} {image}. {image.remedy}")
            continue
        if pixels is None:
            pixels = np.empty((len(images), *image.shape), np.uint8)
        if image.shape == pixels.shape[1:]:
            pixels[position], usable[position] = image, True
        else:
            size, expected = ("{2} × {1}".format(*shape) for shape in (image.shape, pixels.shape[1:]))
            problem = f"{images.name(position)} is {size} pixels; expected {expected} as in the first usable image"
            differing.append(f"{problem}. Set dataset.resolution to resize all images to one size.")
    refuse([] if skip_incomplete else mistakes, differing)
    skipped.check()
    for split, chosen in (("training", ~is_test & ~is_validation), ("validation", is_validation), ("test", is_test)):
        lost = np.setdiff1d(labels[chosen], labels[chosen & usable])
        if len(lost):
            problem = f"no {split} image of class {class_names[lost[0]]} is usable (classes without any: {len(lost)})"
            raise UserError(f"{place}: {problem}; replace some of these images, or remove the class. {mistakes[0]}")
    if mistakes:
        logger.warning("%s: %s %s", place, skipped.sentence(), " ".join(mistakes[:10]))
    pixels = pixels if usable.all() else pixels[usable]
    splits = {"is_test": is_test[usable], "is_validation": is_validation[usable]}
    return ImageSource(name, pixels, labels[usable], class_names=class_names, skipped=skipped.sentence(), **splits)


def is_grey(encoded: bytes | None) -> bool:
    """Return whether an image has no colours; True also for an unreadable image, which decoding reports."""
    try:
        return open_image(encoded).mode in GREY_MODES
    except UnreadableImageError:
        return True
