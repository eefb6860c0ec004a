"""Decode all images of a source into one array."""

import dataclasses
import functools
from pathlib import Path

import numpy as np
from PIL import Image

from trueneg.data.decoding import UnreadableImageError, decode_resized, map_images, open_image
from trueneg.data.image_files import OPENED, check_images, file_contents
from trueneg.data.images.image_source import ImageSource, ListedImages
from trueneg.data.mistakes import refuse
from trueneg.errors import UserError


def decoded_source(
    name: str,
    listed: ListedImages,
    *,
    place: str | Path | None,
    mode: str | None = None,
    resolution: int | None = None,
    skip_incomplete: float = False,
    decoded: float = np.inf,
) -> ImageSource:
    """Decode same-size images, or resize to one size, and leave out unusable ones if
    `skip_incomplete` allows it.

    Args:
        name: name of the source.
        listed: n encoded images, at least one.
        place: folder of the images, for messages.
        mode: ``"L"`` (greyscale) or ``"RGB"``; None: greyscale if all readable images are, else
            RGB.
        resolution: side in pixels of the square to resize to; None keeps the original size.
        skip_incomplete: how many unusable images may be left out, as in :class:`Skipped`.
        decoded: most images to decode; more are only opened if they are to be resized.

    Raises:
        UserError: names all images that are unusable, unless they may be left out, or that, without
            `resolution`, differ in size from the first; also if a class loses all of its training,
            validation or test images.
    """
    skipped = ""
    is_opened = resolution is not None and len(listed.images) > decoded
    if skip_incomplete or is_opened:
        usable, skipped = check_images(
            listed.images, place or name, skip_incomplete, decode=not is_opened
        )
        before = listed
        listed = listed.part(usable)
        for label, split in sorted(before.classes() - listed.classes())[:1]:
            problem = f"no {split} image of class {listed.class_names[label]} is usable"
            raise UserError(
                f"{place}: {problem}; replace some of these images, or remove the class."
            )
    if is_opened:
        return dataclasses.replace(undecoded_source(name, listed), skipped=skipped)
    images = listed.images
    mode = mode or ("L" if all(map(is_grey, images.read())) else "RGB")
    pixels = np.empty(0, np.uint8)
    mistakes: list[str] = []
    differing: list[str] = []
    decode = functools.partial(decode_resized, mode=mode, resolution=resolution)
    for position, image in enumerate(map_images(decode, images.read())):
        if isinstance(image, UnreadableImageError):
            mistakes.append(f"{images.name(position)} {image}. {image.remedy}")
            continue
        if not pixels.size:
            pixels = np.empty((len(images), *image.shape), np.uint8)
        if image.shape == pixels.shape[1:]:
            pixels[position] = image
        else:
            size, expected = (
                "{2} × {1}".format(*shape) for shape in (image.shape, pixels.shape[1:])
            )
            problem = (
                f"{images.name(position)} is {size} pixels; expected {expected} as in the first"
                " usable image"
            )
            differing.append(f"{problem}. Set dataset.resolution to resize all images to one size.")
    refuse(mistakes, differing)
    names = np.array([images.name(position) for position in range(len(images))])
    arrays = listed._replace(images=pixels)._asdict()
    return ImageSource(name, **arrays, skipped=skipped, names=names)


def undecoded_source(name: str, listed: ListedImages) -> ImageSource:
    """Return images that are not decoded, with digests in place of the pixels: of their files, if
    these are not too many, or splits of their own may share some.
    """
    images = listed.images
    is_split = bool((listed.is_test | listed.is_validation).any())
    contents = file_contents(images, read=is_split or len(images) <= OPENED)
    names = np.array([images.name(position) for position in range(len(images))])
    return ImageSource(name, **listed._replace(images=contents)._asdict(), names=names)


def is_grey(encoded: bytes | None) -> bool:
    """Return whether an image has no colours; True also for an unreadable image, which decoding
    reports.
    """
    try:
        return Image.getmodebase(open_image(encoded).mode) == "L"
    except UnreadableImageError:
        return True
