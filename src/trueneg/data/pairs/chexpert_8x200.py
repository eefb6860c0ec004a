"""CheXpert 8×200: ConVIRT's public lists of images and sentences to be found, over CheXpert's images (Zhang et al., 2020).

The lists::

    image-retrieval/candidate.csv     CheXpert's columns; 1,600 images, 200 of each of eight labels, each with that label alone
    image-retrieval/query.csv         Variable, Path; 80 images, ten a label
    text-retrieval/candidate.csv      the same file again
    text-retrieval/query.csv          Variable, Text; 40 sentences, five a label (the lists' README says ten)

The images are CheXpert's (Irvin et al., 2019), of either of its sizes: ``train/patient00001/study1/view1_frontal.jpg`` and so on,
in ``dataset.path`` or the archive's folder within it. Paths in the lists begin with the name of the archive. All images are of
CheXpert's TRAINING split: no training on CheXpert may use those of :func:`read_lists`.
"""

import logging
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trueneg.data.image_cache import cache_images
from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import contents, required_path
from trueneg.data.mistakes import intact, open_arrays, refuse
from trueneg.data.pairs.chexpert_labels import LABEL, OBSERVATIONS, label_values
from trueneg.data.tables import Values, read_columns
from trueneg.errors import UserError
from trueneg.io.files import UserFiles, written_whole
from trueneg.text import privacy

log = logging.getLogger(__name__)

PAGE, LISTS_PAGE = "https://stanfordmlgroup.github.io/competitions/chexpert/", "https://github.com/yuhaozhang/convirt"
ORIGIN = f"It is part of CheXpert, or of CheXpert-small, which Stanford AIMI gives on registration ({PAGE})."
ORIGIN_OF_LISTS = f"It is part of the lists of {LISTS_PAGE}; clone them, and point at the clone."
ARCHIVES = ("CheXpert-v1.0-small", "CheXpert-v1.0")
LABELS = (
    *("No Finding", "Cardiomegaly", "Edema", "Pneumonia"),
    *("Atelectasis", "Pneumothorax", "Pleural Effusion", "Fracture"),
)
CANDIDATES, IMAGE_QUERIES = "image-retrieval/candidate.csv", "image-retrieval/query.csv"
SAME_CANDIDATES, TEXT_QUERIES = "text-retrieval/candidate.csv", "text-retrieval/query.csv"
EACH = {CANDIDATES: 200, IMAGE_QUERIES: 10, TEXT_QUERIES: 5}  # a label
PATH = re.compile(
    rf"\s*(?:(?:{'|'.join(map(re.escape, ARCHIVES))})/)?(train/(patient\d+)/study\d+/view\d+_(?:frontal|lateral)\.jpg)\s*"
)
IMAGE = Values(PATH.pattern, "an image of CheXpert's training split", unique=True)
LABEL_NAME = Values("|".join(LABELS), f"one of {', '.join(LABELS)}")


class Lists(NamedTuple):
    """What is to be found, and by what.

    Attributes:
        candidates, images: ``path`` (within CheXpert's folder), ``patient``, ``label``.
        texts: ``sentence``, ``label``.
    """

    candidates: pd.DataFrame
    images: pd.DataFrame
    texts: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Benchmark:
    """CheXpert 8×200 with its pixels; n = 1,680 images, the candidates first.

    Attributes:
        images: uint8 (n, 1, R, R), grey.
        is_query: bool (n,).
        labels: int64 (n,), places in ``label_names``.
        label_names: the eight.
        patients: str (n,).
        texts: ``sentence``, ``label`` (a name).
    """

    images: np.ndarray
    is_query: np.ndarray
    labels: np.ndarray
    label_names: tuple[str, ...]
    patients: np.ndarray
    texts: pd.DataFrame


def read_lists(path: str | Path) -> Lists:
    """The lists, after checking that they are whole: counts, labels, and no image that is query and candidate.

    Args:
        path: a clone of the lists.

    Raises:
        UserError: naming the file, and the lines, that are missing or wrong.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise UserError(f"{folder}: is no folder, expected one with {CANDIDATES} and the lists beside it. {ORIGIN_OF_LISTS}")
    candidates = _read(folder, CANDIDATES, {"Path": IMAGE, **dict.fromkeys(OBSERVATIONS, LABEL)})
    images = _read(folder, IMAGE_QUERIES, {"Variable": LABEL_NAME, "Path": IMAGE})
    texts = _read(folder, TEXT_QUERIES, {"Variable": LABEL_NAME, "Text": Values(r".*\S.*", "a sentence", unique=True)})
    copy = folder / SAME_CANDIDATES
    if not copy.is_file() or copy.read_bytes() != (folder / CANDIDATES).read_bytes():
        found = "is another file" if copy.is_file() else "is not there"
        raise UserError(f"{copy}: {found}, expected the same bytes as {CANDIDATES}. {ORIGIN_OF_LISTS}")
    positive = label_values(candidates[list(OBSERVATIONS)]) == 1
    alone = f"has not exactly one label of 1. {ORIGIN_OF_LISTS}"
    refuse([f"{folder / CANDIDATES}: {place}: {alone}" for place in candidates.index[positive.sum(axis=1) != 1]])
    found = Lists(
        _images(candidates["Path"], positive.idxmax(axis=1)),
        _images(images["Path"], images["Variable"]),
        pd.DataFrame({"sentence": texts["Text"], "label": texts["Variable"]}).reset_index(drop=True),
    )
    mistakes = []
    for name, table in zip(EACH, found, strict=True):
        counts = Counter(table["label"])
        mistakes += [
            f"{folder / name}: has {counts[label]} of {label}, expected {EACH[name]}. {ORIGIN_OF_LISTS}"
            for label in LABELS
            if counts[label] != EACH[name]
        ]
    refuse(mistakes)
    both = found.images["path"].isin(found.candidates["path"]).sum()
    if both:
        raise UserError(f"{folder / IMAGE_QUERIES}: {both} of its images are candidates too, expected none. {ORIGIN_OF_LISTS}")
    shared = found.images["patient"].isin(found.candidates["patient"])
    patients = found.images.loc[shared, "patient"].nunique()
    log.info("CheXpert 8×200: %d patients of image queries have candidates too, as in the published lists", patients)
    return found


def prepare_chexpert_8x200(settings: Mapping[str, Any], *, benchmark: str | Path, cache: str | Path, threads: int) -> None:
    """Decode the images of the lists, candidates first, as grey squares; files are readable by their owner alone.

    Args:
        settings: ``path`` (CheXpert's folder), ``lists`` (a clone of ConVIRT's lists), ``resolution``.
        benchmark: .npz file to write, the sentences beside it (.parquet): :func:`read_benchmark`.
        cache: folder of the decoded images; it may be removed afterwards.
        threads: that decode.

    Raises:
        UserError: if a list or an image is missing or damaged.
    """
    lists, root = read_lists(settings["lists"]), chexpert_folder(settings["path"])
    table = pd.concat([lists.candidates, lists.images], ignore_index=True)
    if not (root / "train").is_dir():
        raise UserError(f"{root}: has no folder train (found {contents(root)}), the images of CheXpert. {ORIGIN}")
    files = ImageFiles(tuple(root / path for path in table["path"]), ORIGIN)
    privacy.write_table(lists.texts, _beside(benchmark), restricted=True)
    with privacy.owner_only(True):
        pixels = cache_images(files, cache, mode="L", resolution=settings["resolution"], threads=threads)
        with written_whole(benchmark) as temporary, temporary.open("wb") as stream:
            np.savez(
                stream,
                images=pixels,
                is_query=np.arange(len(table)) >= len(lists.candidates),
                labels=table["label"].map(LABELS.index).to_numpy(np.int64),
                patients=table["patient"].to_numpy(str),
            )
    log.info("CheXpert 8×200: %s images and %d sentences", f"{len(table):,}", len(lists.texts))


def read_benchmark(path: str | Path) -> Benchmark:
    """Read what :func:`prepare_chexpert_8x200` wrote.

    Raises:
        UserError: if one of the two files is missing or damaged.
    """
    with intact(path, "file of CheXpert 8×200", beside=_beside(path)), open_arrays(path) as archive:
        return Benchmark(label_names=LABELS, texts=privacy.read_table(_beside(path))[0], **archive)


def chexpert_folder(path: str | Path | None) -> Path:
    """The folder that holds train/, wherever it lies; `path` itself, where it is in none of the places."""
    folder = required_path(path, "chexpert", "train/ (CheXpert-v1.0-small or CheXpert-v1.0)")
    return next((place for place in (folder, *(folder / name for name in ARCHIVES)) if (place / "train").is_dir()), folder)


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is missing of the ``lists``, and of CheXpert's images in ``path``."""
    folder, root = Path(settings["lists"]).expanduser(), chexpert_folder(settings["path"])
    lacking = [name for name in (*EACH, SAME_CANDIDATES) if not (folder / name).is_file()]
    found = [f"{', '.join(lacking)} in {folder}: of ConVIRT's lists, public: {LISTS_PAGE}"] if lacking else []
    if not (root / "train").is_dir():
        found.append(f"the radiographs, train/ in {root}: of CheXpert or CheXpert-small, Stanford AIMI, on registration: {PAGE}")
    return found


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The lists, and the images that they name."""
    folder, root = Path(settings["lists"]).expanduser(), chexpert_folder(settings["path"])
    lists = [folder / name for name in (*EACH, SAME_CANDIDATES)]
    try:
        named = [path for name in (CANDIDATES, IMAGE_QUERIES) for path in read_columns(folder / name, ["Path"])["Path"]]
    except UserError:  # the job that reads the lists reports it
        return UserFiles(lists)
    return UserFiles(lists, [root / match[1] for match in map(PATH.fullmatch, named) if match])


def _read(folder: Path, name: str, columns: Mapping[str, Values]) -> pd.DataFrame:
    return read_columns(folder / name, columns, ORIGIN_OF_LISTS)


def _images(written: pd.Series, labels: pd.Series) -> pd.DataFrame:
    found = written.str.extract(PATH).set_axis(["path", "patient"], axis=1)
    return found.assign(label=labels).reset_index(drop=True)


def _beside(path: str | Path) -> Path:
    return Path(path).with_suffix(".parquet")
