"""Images in one subfolder per class, in the layout of torchvision's ``ImageFolder``.

The classes are the subfolders of the folder itself, or of its subfolders for training, testing and
validation, which may be named in any usual way (``train``, ``seg_train``, ``Validation``) and have
one folder between them and the classes. The images of a class may be in nested folders or behind
links. Hidden files and folders are ignored, and so are those that servers add.
"""

import itertools
import logging
import os
import re
from pathlib import Path
from typing import NoReturn

import numpy as np

from trueneg.data.cells import split_name
from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import contents, required_path
from trueneg.data.images.image_source import ListedImages
from trueneg.data.images.labels import class_name, sorted_names
from trueneg.data.mistakes import refuse
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.specs.sections import Section

LAYOUT = (
    "one subfolder of images per class, or with train, test and val, each with one subfolder per"
    " class"
)
SPLITS = ("train", "validation", "test")
ADDED = ("@eaDir", "#recycle", "__MACOSX")  # by servers and archives
SUFFIXES = ".png, .jpg, .jpeg, .jpe, .jfif, .webp, .tif, .tiff, .bmp, .gif"
OTHER_FORMATS = ".avif, .dcm, .dicom, .dng, .heic, .heif, .jp2, .jxl, .pbm, .pgm, .ppm, .svg"
# Files with other suffixes are ignored; whether one of these can be read depends on its content.
IMAGES = tuple(f"{SUFFIXES}, {OTHER_FORMATS}".split(", "))

logger = logging.getLogger(__name__)


def listed(path: str | Path | None) -> ListedImages:
    """List the images and their classes without opening them.

    Images are sorted by split (train, validation, test), class and path; classes are numbered in
    the order of their names (:func:`~trueneg.data.images.labels.sorted_names`).

    Args:
        path: folder of the class folders, or of those of the splits.

    Raises:
        UserError: if a folder is missing, unreadable or has an unexpected layout.
    """
    folder = required_path(path, "image_folder", LAYOUT)
    splits = {split: _classes(place) for split, place in _split_folders(folder).items()}
    names = sorted_names(itertools.chain(*splits.values()))
    if differing := [
        name for name in names if any(name not in classes for classes in splits.values())
    ]:
        raise UserError(
            f"{folder}: class {differing[0]} is not in all splits; expected the same classes in"
            f" {' and '.join(splits)} (differing classes: {len(differing):,}). Rename, add or"
            " remove class folders."
        )
    files = [
        (split, label, file)
        for split, of in splits.items()
        for label, name in enumerate(names)
        for file in of[name]
    ]
    split_of, labels, paths = zip(*files, strict=True)
    return ListedImages(
        ImageFiles(paths),
        np.array(labels, np.int64),
        np.isin(split_of, "test"),
        names,
        np.isin(split_of, "validation"),
    )


def user_files(settings: Section) -> UserFiles:
    """Return the images of all classes in the folder ``path``."""
    folder = required_path(settings["path"], "image_folder", LAYOUT)
    classes = itertools.chain(*map(_subfolders, _split_folders(folder).values()))
    return UserFiles(images=list(filter(_is_image, itertools.chain(*map(_files, classes)))))


def _split_folders(folder: Path) -> dict[str, Path]:
    """Return the folders that contain the classes by split, or the folder itself as ``train``."""
    inner = folder if _named_splits(folder) else _unwrapped(folder)
    named = _named_splits(inner)
    places = [place for some in named.values() for place in some]
    names = [place.name for place in _subfolders(inner)]
    # Beside other classes, a folder without subfolders is a class, even if its name is train.
    if not named or (len(places) < len(names) and not any(map(_subfolders, places))):
        return {"train": folder}
    if "train" not in named or not len(named) == len(places) == len(names):
        raise UserError(
            f"{inner} contains the folders {', '.join(names)}; expected train and, if there are"
            " such images, one of test and one of val. Rename them, and move other folders out of"
            " it."
        )
    return {split: _unwrapped(named[split][0]) for split in SPLITS if split in named}


def _named_splits(folder: Path) -> dict[str, list[Path]]:
    """Return the subfolders that are named as splits, by split; further words in their names are
    the same for all (``seg_train``, ``seg_test``).
    """
    words = {place: re.findall("[a-z]+", place.name.lower()) for place in _subfolders(folder)}
    named = {
        place: some for place, some in words.items() if sum(map(bool, map(split_name, some))) == 1
    }
    rests = {tuple(itertools.filterfalse(split_name, some)) for some in named.values()}
    splits: dict[str, list[Path]] = {}
    for place, some in named.items():
        if len(some) == 1 or (len(rests) == 1 and len(named) > 1):
            splits.setdefault("".join(map(split_name, some)), []).append(place)
    return splits


def _unwrapped(folder: Path) -> Path:
    """Return the folder, or that within it if it has a single one with further folders."""
    places = _subfolders(folder)
    return _unwrapped(places[0]) if len(places) == 1 and _subfolders(places[0]) else folder


def _classes(folder: Path) -> dict[str, list[Path]]:
    """Return the image files of each class, sorted."""
    places = _subfolders(folder)
    if len(places) < 2:
        raise UserError(
            f"{folder}: found {contents(folder)}; expected at least two subfolders of images, one"
            " per class. Name the folder that has them (dataset.path of a study)."
        )
    mistakes = [
        f"{file} is not in a class folder; move the image to one or remove it."
        for file in _visible(folder)
        if _is_image(file) and not os.path.isdir(file)
    ]
    files_of: dict[str, list[Path]] = {}
    ignored: list[Path] = []
    for place in places:
        name = class_name(place.name)
        files = _files(place)
        images = list(filter(_is_image, files))
        ignored += itertools.filterfalse(_is_image, files)
        if name is None:
            mistakes.append(
                f"{folder} has a class folder named {place.name!r}; expected printable characters;"
                " rename it."
            )
        elif len(_named_splits(place)) > 1:
            mistakes.append(
                f"{place}: found {contents(place)}; expected the folders of splits above those of"
                f" classes: train/{name}, test/{name}."
            )
        elif not images:
            mistakes.append(
                f"{place}: found {contents(place)}; expected images (files named"
                f" *{SUFFIXES.replace(', ', ', *')}); add some or remove the folder."
            )
        else:
            files_of.setdefault(name, []).extend(images)
    refuse(mistakes)
    if ignored:
        logger.warning(
            f"{folder}: ignored {len(ignored):,} files, such as {ignored[0]}: the names of images"
            f" end in {SUFFIXES}."
        )
    return files_of


def _visible(folder: Path) -> list[Path]:
    """Return the files and folders in a folder that are not hidden, sorted; none if it does not
    exist.
    """
    try:
        return sorted(place for place in folder.iterdir() if not _is_hidden(place.name))
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
        folders[:] = itertools.filterfalse(_is_hidden, folders)
        files += [(place, name) for name in itertools.filterfalse(_is_hidden, names)]
    return [Path(place, name) for place, name in sorted(files)]


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in ADDED


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in IMAGES


def _refuse_unreadable(error: OSError) -> NoReturn:
    raise UserError(
        f"{error.filename} cannot be read ({error.strerror}); expected a folder that you can read."
    ) from error
