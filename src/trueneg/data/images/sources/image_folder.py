"""Images in one subfolder per class, in the layout of torchvision's ``ImageFolder``.

The classes are the subfolders of the folder itself, or of its subfolders ``train`` and, with an official test split, ``test``.
The images of a class may be in nested folders or behind links. Hidden files and folders are ignored.
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
from trueneg.data.images.pixels import is_grey, read_pixels
from trueneg.data.mistakes import refuse
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.specs.sources import data_name

LAYOUT = "one subfolder of images per class, or with train and test, each with one subfolder per class"
SPLITS = ("train", "test")
NAMES_OF_SPLITS = {*SPLITS, "training", "testing", "val", "valid", "validation"}
IMAGES = (".png", ".jpg", ".jpeg")
OTHER_IMAGES = (".bmp", ".gif", ".heic", ".pgm", ".ppm", ".tif", ".tiff", ".webp")  # refused, because images are never ignored

logger = logging.getLogger(__name__)


def load(path: str | Path | None, *, resolution: int | None = None, download: bool = False) -> ImageSource:
    """Load the user's own data from a folder with one subfolder of PNG and JPEG files per class.

    Images are read as greyscale if all of them are, else as RGB. They are sorted by class and path, the test images last; classes
    are numbered in the order of their names (:func:`~trueneg.data.images.labels.sorted_names`).

    Args:
        path: folder of the class folders, or of ``train`` and ``test``.
        resolution: side in pixels of the square to resize to; required if images differ in size.
        download: must be False because there is nothing to download.

    Raises:
        UserError: if a folder is missing, unreadable or has an unexpected layout, or an image cannot be used.
    """
    images, labels, is_test, names = listed(path, download)
    pixels = read_pixels(images, "L" if all(map(is_grey, images.read())) else "RGB", resolution)
    return ImageSource(data_name("image_folder", path), pixels, labels, is_test, names)


def listed(path: str | Path | None, download: bool = False) -> ListedImages:
    """List the images and their classes without opening them; same arguments and errors as :func:`load`."""
    folder = required_path(path, "image_folder", LAYOUT, download)
    splits = [_classes(place) for place in _split_folders(folder)]
    differing = sorted_names(splits[0].keys() ^ splits[-1].keys())
    if differing:
        problem = f"class {differing[0]} is only in {SPLITS[differing[0] in splits[1]]} (differing classes: {len(differing):,})"
        raise UserError(f"{folder}: {problem}; expected the same classes in train and test. Rename, add or remove class folders.")
    names = sorted_names(splits[0])
    files = [(label, file) for split in splits for label, name in enumerate(names) for file in split[name]]
    is_test = np.arange(len(files)) >= sum(map(len, splits[0].values()))
    labels = np.array([label for label, _ in files], np.int64)
    return ListedImages(ImageFiles(tuple(file for _, file in files)), labels, is_test, names)


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """Return the images of all classes in the folder ``path``."""
    classes = map(_subfolders, _split_folders(required_path(settings["path"], "image_folder", LAYOUT)))
    return UserFiles(images=[file for place in itertools.chain(*classes) for file in _files(place) if _has_suffix(file, IMAGES)])


def _split_folders(folder: Path) -> list[Path]:
    """Return the folders that contain the classes: ``train`` and, if it exists, ``test``, or the folder itself."""
    names = [place.name for place in _subfolders(folder)]
    splits = [name for name in names if name.lower() in NAMES_OF_SPLITS]
    # Beside other classes, a folder without subfolders is a class, even if its name is train.
    if not splits or (len(splits) < len(names) and not any(_subfolders(folder / name) for name in splits)):
        return [folder]
    if names not in (["train"], ["test", "train"]):
        remedy = "Rename them, and move other folders elsewhere: validation images are held out from train (dataset.validation)."
        expected = f"expected train and, for the test images, test. {remedy}"
        raise UserError(f"{folder} contains the folders {', '.join(names)}; {expected}")
    return [folder / split for split in SPLITS if split in names]


def _classes(folder: Path) -> dict[str, list[Path]]:
    """Return the image files of each class, sorted."""
    places = _subfolders(folder)
    if len(places) < 2:
        expected = "at least two subfolders of images, one per class"
        raise UserError(f"{folder}: found {contents(folder)}; expected {expected}. Set dataset.path to the folder that has them.")
    loose = [file for file in _visible(folder) if _has_suffix(file, IMAGES + OTHER_IMAGES) and not os.path.isdir(file)]
    mistakes = [f"{file} is not in a class folder; move the image to one or remove it." for file in loose]
    files_of: dict[str, list[Path]] = {}
    ignored = []
    for place in places:
        name, files = class_name(place.name), _files(place)
        images, others = ([file for file in files if _has_suffix(file, suffixes)] for suffixes in (IMAGES, OTHER_IMAGES))
        ignored += [file for file in files if not _has_suffix(file, IMAGES + OTHER_IMAGES)]
        if name is None:
            mistakes.append(f"{folder} has a class folder named {place.name!r}; expected printable characters; rename it.")
        elif others:
            count = f"{len(others):,} of {len(images) + len(others):,} images, such as {others[0].name}, are in other formats"
            mistakes.append(f"{place}: {count}; expected PNG or JPEG; convert them.")
        elif not images:
            mistakes.append(f"{place}: found {contents(place)}; expected PNG or JPEG images; add some or remove the folder.")
        else:
            files_of.setdefault(name, []).extend(images)
    refuse(mistakes)
    if ignored:
        logger.warning("%s: ignored %s files that are not images, such as %s.", folder, f"{len(ignored):,}", ignored[0])
    return files_of


def _visible(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden, sorted; none if it does not exist."""
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
            raise UserError(f"{place} links to {real}, which is also in {folder}; expected each folder once; remove the link.")
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [(place, name) for name in names if not name.startswith(".")]
    return [Path(place, name) for place, name in sorted(files)]


def _has_suffix(file: Path, suffixes: tuple[str, ...]) -> bool:
    return file.suffix.lower() in suffixes


def _refuse_unreadable(error: OSError) -> NoReturn:
    raise UserError(f"{error.filename} cannot be read ({error.strerror}); expected a folder that you may read.") from error
