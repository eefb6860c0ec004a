"""Images in one subfolder per class, in the layout of torchvision's ``ImageFolder``.

The classes are the subfolders of the folder itself, or of its subfolders ``train`` and, with
official splits, ``test`` and ``val`` (or ``valid`` or ``validation``). The images of a class may be
in nested folders or behind links. Hidden files and folders are ignored.
"""

import itertools
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import contents, required_path
from trueneg.data.images.image_source import ImageSource, ListedImages
from trueneg.data.images.labels import class_name, sorted_names
from trueneg.data.images.pixels import decoded_source
from trueneg.data.mistakes import refuse
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.specs.sources import data_name

LAYOUT = (
    "one subfolder of images per class, or with train, test and val, each with one subfolder per"
    " class"
)
VALIDATION = ("val", "valid", "validation")
SPLITS = ("train", *VALIDATION, "test")
NAMES_OF_SPLITS = {*SPLITS, "training", "testing"}
# Files with other suffixes are ignored; whether one of these can be read depends on its content.
IMAGES: tuple[str, ...] = (
    ".png",
    ".jpg",
    ".jpeg",
    ".jpe",
    ".jfif",
    ".webp",
    ".tif",
    ".tiff",
    ".bmp",
    ".gif",
)
IMAGES += (
    ".avif",
    ".dcm",
    ".dicom",
    ".dng",
    ".heic",
    ".heif",
    ".jp2",
    ".jxl",
    ".pbm",
    ".pgm",
    ".ppm",
    ".svg",
)

logger = logging.getLogger(__name__)


def load(
    path: str | Path | None,
    *,
    resolution: int | None = None,
    download: bool = False,
    skip_incomplete: float = False,
) -> ImageSource:
    """Load the user's own data from a folder with one subfolder of images per class.

    Images are read as greyscale if all of them are, else as RGB. They are sorted by split (train,
    validation, test), class and path; classes are numbered in the order of their names
    (:func:`~trueneg.data.images.labels.sorted_names`).

    Args:
        path: folder of the class folders, or of ``train``, ``test`` and one of ``val``, ``valid``
            and ``validation``.
        resolution: side in pixels of the square to resize to; required if images differ in size.
        download: must be False because there is nothing to download.
        skip_incomplete: how many unusable images may be left out
            (:class:`trueneg.data.skipping.Skipped`).

    Raises:
        UserError: if a folder is missing, unreadable or has an unexpected layout, or an image
            cannot be used.
    """
    name, place = (
        data_name("image_folder", path),
        required_path(path, "image_folder", LAYOUT, download),
    )
    return decoded_source(
        name, listed(path), place=place, resolution=resolution, skip_incomplete=skip_incomplete
    )


def listed(path: str | Path | None) -> ListedImages:
    """List the images and their classes without opening them; same arguments and errors as
    :func:`load`.
    """
    folder = required_path(path, "image_folder", LAYOUT)
    splits = {place.name: _classes(place) for place in _split_folders(folder)}
    names = sorted_names({name for classes in splits.values() for name in classes})
    if differing := [
        name for name in names if any(name not in classes for classes in splits.values())
    ]:
        expected = (
            f"expected the same classes in {' and '.join(splits)} (differing classes:"
            f" {len(differing):,})"
        )
        raise UserError(
            f"{folder}: class {differing[0]} is not in all splits; {expected}. Rename, add or"
            " remove class folders."
        )
    files = [
        (split, label, file)
        for split, of in splits.items()
        for label, name in enumerate(names)
        for file in of[name]
    ]
    is_test, is_validation = (
        np.array([split in of for split, _, _ in files]) for of in (("test",), VALIDATION)
    )
    labels = np.array([label for _, label, _ in files], np.int64)
    return ListedImages(
        ImageFiles(tuple(file for _, _, file in files)), labels, is_test, names, is_validation
    )


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """Return the images of all classes in the folder ``path``."""
    classes = map(
        _subfolders, _split_folders(required_path(settings["path"], "image_folder", LAYOUT))
    )
    return UserFiles(
        images=[
            file for place in itertools.chain(*classes) for file in _files(place) if _is_image(file)
        ]
    )


def _split_folders(folder: Path) -> list[Path]:
    """Return the folders that contain the classes: ``train``, and those of validation and test
    images, or the folder itself.
    """
    names = [place.name for place in _subfolders(folder)]
    splits = [name for name in names if name.lower() in NAMES_OF_SPLITS]
    # Beside other classes, a folder without subfolders is a class, even if its name is train.
    if not splits or (
        len(splits) < len(names) and not any(_subfolders(folder / name) for name in splits)
    ):
        return [folder]
    if (
        "train" not in names
        or not set(names) <= set(SPLITS)
        or len(set(names) & set(VALIDATION)) > 1
    ):
        expected = (
            f"expected train and, if there are such images, test and one of {', '.join(VALIDATION)}"
        )
        remedy = "Rename them, and move other folders out of it"
        raise UserError(f"{folder} contains the folders {', '.join(names)}; {expected}. {remedy}.")
    return [folder / split for split in SPLITS if split in names]


def _classes(folder: Path) -> dict[str, list[Path]]:
    """Return the image files of each class, sorted."""
    places = _subfolders(folder)
    if len(places) < 2:
        expected = "at least two subfolders of images, one per class"
        raise UserError(
            f"{folder}: found {contents(folder)}; expected {expected}. Set dataset.path to the"
            " folder that has them."
        )
    loose = [file for file in _visible(folder) if _is_image(file) and not os.path.isdir(file)]
    mistakes = [
        f"{file} is not in a class folder; move the image to one or remove it." for file in loose
    ]
    files_of: dict[str, list[Path]] = {}
    ignored: list[Path] = []
    for place in places:
        name, files = class_name(place.name), _files(place)
        images = list(filter(_is_image, files))
        ignored += itertools.filterfalse(_is_image, files)
        if name is None:
            mistakes.append(
                f"{folder} has a class folder named {place.name!r}; expected printable characters;"
                " rename it."
            )
        elif not images:
            expected = f"images (files named *{', *'.join(IMAGES[:9])})"
            mistakes.append(
                f"{place}: found {contents(place)}; expected {expected}; add some or remove the"
                " folder."
            )
        else:
            files_of.setdefault(name, []).extend(images)
    refuse(mistakes)
    if ignored:
        count, suffixes = f"{len(ignored):,} files", ", ".join(IMAGES[:9])
        logger.warning(
            "%s: ignored %s, such as %s: the names of images end in %s.",
            folder,
            count,
            ignored[0],
            suffixes,
        )
    return files_of


def _visible(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden, sorted; none if it does not
    exist.
    """
    try:
        return sorted(place for place in folder.iterdir() if not place.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        _refuse_unreadable(error)


def _subfolders(folder: Path) -> list[Path]:
    return [place for place in _visible(folder) if os.path.isdir(place)]


def _files(folder: Path) -> list[Path]:
    """Return the files in a folder and in its subfolders, in torchvision's order."""
    files: list[tuple[str, str]] = []
    seen: set[str] = set()
    for place, folders, names in os.walk(folder, onerror=_refuse_unreadable, followlinks=True):
        if (real := os.path.realpath(place)) in seen:
            raise UserError(
                f"{place} links to {real}, which is also in {folder}; expected each folder once;"
                " remove the link."
            )
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [(place, name) for name in names if not name.startswith(".")]
    return [Path(place, name) for place, name in sorted(files)]


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in IMAGES


def _refuse_unreadable(error: OSError) -> NoReturn:
    raise UserError(
        f"{error.filename} cannot be read ({error.strerror}); expected a folder that you can read."
    ) from error
