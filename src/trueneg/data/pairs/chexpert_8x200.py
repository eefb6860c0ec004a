"""CheXpert 8×200: ConVIRT's public lists of images and sentences to be found, over CheXpert's images (Zhang et al., 2020)::

    image-retrieval/candidate.csv     CheXpert's columns; 1,600 images, 200 of each of eight labels, each with that label alone
    image-retrieval/query.csv         Variable, Path; 80 images, ten a label
    text-retrieval/candidate.csv      the same file again
    text-retrieval/query.csv          Variable, Text; 40 sentences, five a label (the lists' README says ten)

All images are of CheXpert's TRAINING split: :func:`held_out_paths` says which may not be trained on.
"""

import logging
import zipfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trueneg.data.image_cache import cache_images
from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import contents
from trueneg.data.mistakes import refuse
from trueneg.data.pairs import chexpert
from trueneg.data.pairs.chexpert import chexpert_folder, image_path
from trueneg.data.pairs.chexpert_labels import OBSERVATIONS, label_mistakes, label_values
from trueneg.data.pairs.image_pairs import read_columns
from trueneg.errors import UserError
from trueneg.io.files import UserFiles, written_whole
from trueneg.text import privacy

log = logging.getLogger(__name__)

PAGE = "https://github.com/yuhaozhang/convirt"
ORIGIN = f"It is part of the lists of {PAGE}; clone them, and point at the clone."
LABELS = (
    *("No Finding", "Cardiomegaly", "Edema", "Pneumonia"),
    *("Atelectasis", "Pneumothorax", "Pleural Effusion", "Fracture"),
)
CANDIDATES, IMAGE_QUERIES = "image-retrieval/candidate.csv", "image-retrieval/query.csv"
SAME_CANDIDATES, TEXT_QUERIES = "text-retrieval/candidate.csv", "text-retrieval/query.csv"
EACH = {CANDIDATES: 200, IMAGE_QUERIES: 10, TEXT_QUERIES: 5}  # a label


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
        raise UserError(f"{folder}: is no folder, expected one with {CANDIDATES} and the lists beside it. {ORIGIN}")
    candidates = read_columns(folder / CANDIDATES, ("Path", *OBSERVATIONS), ORIGIN)
    images = read_columns(folder / IMAGE_QUERIES, ("Variable", "Path"), ORIGIN)
    texts = read_columns(folder / TEXT_QUERIES, ("Variable", "Text"), ORIGIN)
    copy = folder / SAME_CANDIDATES
    if not copy.is_file() or copy.read_bytes() != (folder / CANDIDATES).read_bytes():
        found = "is another file" if copy.is_file() else "is not there"
        raise UserError(f"{copy}: {found}, expected the same bytes as {CANDIDATES}. {ORIGIN}")
    labels = candidates[list(OBSERVATIONS)]
    refuse([f"{folder / CANDIDATES}: {mistake} {ORIGIN}" for mistake in label_mistakes(labels)])
    positive = label_values(labels) == 1
    own = np.array(OBSERVATIONS)[positive.argmax(1)]
    several = candidates.index[positive.sum(1) != 1]
    mistakes = [f"{folder / CANDIDATES}: {place}: has not exactly one label of 1. {ORIGIN}" for place in several]
    found = Lists(
        _images(candidates["Path"], own),
        _images(images["Path"], images["Variable"]),
        pd.DataFrame({"sentence": texts["Text"].to_numpy(object), "label": texts["Variable"].to_numpy(object)}),
    )
    for name, table, written in zip(EACH, found, (candidates["Path"], images["Path"], texts["Text"]), strict=True):
        mistakes += [f"{folder / name}: {mistake} {ORIGIN}" for mistake in _mistakes(table, written, EACH[name])]
    refuse(mistakes)
    both = found.images["path"].isin(found.candidates["path"])
    if both.any():
        raise UserError(f"{folder / IMAGE_QUERIES}: {both.sum()} of its images are candidates too, expected none. {ORIGIN}")
    shared = found.images["patient"].isin(found.candidates["patient"])
    patients = found.images.loc[shared, "patient"].nunique()
    log.info("CheXpert 8×200: %d patients of image queries have candidates too, as in the published lists", patients)
    return found


def held_out_paths(path: str | Path) -> frozenset[str]:
    """Paths of :func:`trueneg.data.pairs.chexpert.read_chexpert` that no training on CheXpert may use, where 8×200 tests.

    Raises:
        UserError: as :func:`read_lists`.
    """
    lists = read_lists(path)
    return frozenset((*lists.candidates["path"], *lists.images["path"]))


def prepare_chexpert_8x200(settings: Mapping[str, Any], *, benchmark: str | Path, cache: str | Path, threads: int) -> None:
    """Decode the images of the lists, candidates first, as grey squares; files are readable by their owner alone.

    Args:
        settings: ``path`` (CheXpert's folder, as for :mod:`trueneg.data.pairs.chexpert`), ``lists`` (a clone of ConVIRT's lists),
            ``resolution``.
        benchmark: .npz file to write, the sentences beside it (.parquet): :func:`read_benchmark`.
        cache: folder of the decoded images; it may be removed afterwards.
        threads: that decode.

    Raises:
        UserError: if a list or an image is missing or damaged.
    """
    lists, root = read_lists(settings["lists"]), chexpert_folder(settings["path"])
    table = pd.concat([lists.candidates, lists.images], ignore_index=True)
    if not (root / "train").is_dir():
        raise UserError(f"{root}: has no folder train (found {contents(root)}), the images of CheXpert. {chexpert.ORIGIN}")
    files = ImageFiles(tuple(root / path for path in table["path"]), chexpert.ORIGIN)
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
    if not Path(path).is_file():
        raise UserError(f"{path}: does not exist, expected the images of CheXpert 8×200; run the step that makes them.")
    texts = privacy.read_table(_beside(path))[0]
    try:
        if not zipfile.is_zipfile(path):
            raise ValueError("it is no .npz archive, or its end is missing")
        with np.load(path, allow_pickle=False) as archive:  # compares checksums as it reads
            content = {name: archive[name] for name in ("images", "is_query", "labels", "patients")}
    except MemoryError:  # says nothing of the file
        raise
    except Exception as error:  # a damaged archive can raise nearly anything
        again = f"Remove it and {_beside(path)} to have them made again."
        raise UserError(f"{path}: is not readable as CheXpert 8×200 ({error}). {again}") from error
    return Benchmark(label_names=LABELS, texts=texts, **content)


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is not there of the lists and of CheXpert's images, a line each.

    Args:
        settings: ``path``, ``lists``.
    """
    folder = Path(settings["lists"]).expanduser()
    lacking = [name for name in (*EACH, SAME_CANDIDATES) if not (folder / name).is_file()]
    found = [f"{', '.join(lacking)} in {folder}: of ConVIRT's lists, public: {PAGE}"] if lacking else []
    return found + chexpert.missing_files(settings)


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The lists, and the images that they name; settings as for :func:`missing_files`."""
    folder, root = Path(settings["lists"]).expanduser(), chexpert_folder(settings["path"])
    lists = [folder / name for name in (*EACH, SAME_CANDIDATES)]
    try:
        named = [path for name in (CANDIDATES, IMAGE_QUERIES) for path in read_columns(folder / name, ("Path",), ORIGIN)["Path"]]
    except UserError:  # the job that reads the lists reports it
        return UserFiles(lists)
    return UserFiles(lists, [root / path for path in map(image_path, named) if path])


def _images(written: pd.Series, labels: Any) -> pd.DataFrame:
    paths = written.map(image_path)
    return pd.DataFrame(
        {"path": paths.to_numpy(object), "patient": paths.str.split("/").str[1].to_numpy(object), "label": np.asarray(labels)}
    )


def _mistakes(table: pd.DataFrame, written: pd.Series, each: int) -> list[str]:
    """What is wrong with a list: `written` has the places of its rows, and the paths or sentences as they are there."""
    entries, column = table.iloc[:, 0], table.columns[0]
    right = entries.str.startswith("train/", na=False) if column == "path" else entries.str.strip() != ""
    found = [
        f"{place}: {column} is {value!r}, expected one of CheXpert's training split."
        if column == "path"
        else f"{place}: is empty."
        for place, value in written[~right.to_numpy()].items()
    ]
    found += [f"{place}: {column} is that of an earlier line." for place in written.index[entries.duplicated()]]
    unknown = ~table["label"].isin(LABELS).to_numpy()
    found += [
        f"{place}: label is {label!r}, expected one of {', '.join(LABELS)}."
        for place, label in zip(written.index[unknown], table["label"][unknown], strict=True)
    ]
    counts = Counter(table["label"])
    return found + [f"has {counts[name]} of {name}, expected {each}." for name in LABELS if counts[name] != each]


def _beside(path: str | Path) -> Path:
    return Path(path).with_suffix(".parquet")
