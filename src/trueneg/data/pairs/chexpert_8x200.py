"""CheXpert 8×200: ConVIRT's public retrieval benchmark on CheXpert images (Zhang et al., 2020).

The lists::

    image-retrieval/candidate.csv     CheXpert's columns; 1,600 images with exactly one of eight
    labels, 200 per label image-retrieval/query.csv         Variable, Path; 80 images, ten per label
    text-retrieval/query.csv          Variable, Text; 40 sentences, five per label (the lists'
    README says ten)

The images are those of CheXpert (Irvin et al., 2019) in either of its two sizes. ``dataset.path``,
or the archive's folder in it, contains files such as
``train/patient00001/study1/view1_frontal.jpg``. Paths in the lists begin with the name of the
archive. All images belong to CheXpert's TRAINING split, so training on CheXpert must exclude the
images that :func:`read_lists` returns.
"""

import itertools
import logging
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.arrays import read_arrays, write_arrays
from trueneg.data.image_cache import cache_images
from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import Part, found_parts, missing_parts, required_path
from trueneg.data.mistakes import refuse
from trueneg.data.pairs.chexpert_labels import LABEL, OBSERVATIONS, label_values
from trueneg.data.scored_sentences import remove_both, sentences_of
from trueneg.data.tables import Values, read_columns, refuse_rows
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.io.files import UserFiles
from trueneg.specs.sections import Section

log = logging.getLogger(__name__)

PAGE = "https://stanfordmlgroup.github.io/competitions/chexpert/"
LISTS_PAGE = "https://github.com/yuhaozhang/convirt"
ORIGIN = (
    "It is part of CheXpert and of CheXpert-small, which Stanford AIMI provides after registration"
    f" ({PAGE})."
)
ORIGIN_OF_LISTS = (
    f"It is part of {LISTS_PAGE}; clone the repository, and set the path of the lists to the clone."
)
ARCHIVES = ("CheXpert-v1.0-small", "CheXpert-v1.0")
RADIOGRAPHS = Part(
    ("train", *(f"{archive}/train" for archive in ARCHIVES)), "the radiographs", ORIGIN
)
LISTS = (
    Part(("image-retrieval/candidate.csv",), "the candidate images", ORIGIN_OF_LISTS),
    Part(("image-retrieval/query.csv",), "the query images", ORIGIN_OF_LISTS),
    Part(("text-retrieval/query.csv",), "the query sentences", ORIGIN_OF_LISTS),
)
EACH = (200, 10, 5)  # number of rows per label in each list
LABELS = (
    "No Finding",
    "Cardiomegaly",
    "Edema",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Fracture",
)
PATH = re.compile(
    rf"\s*(?:(?:{'|'.join(map(re.escape, ARCHIVES))})/)?"
    r"(train/(patient\d+)/study\d+/view\d+_(?:frontal|lateral)\.jpg)\s*"
)
IMAGE = Values(PATH.pattern, "an image of CheXpert's training split", unique=True)
LABEL_NAME = Values("|".join(LABELS), f"one of {', '.join(LABELS)}")


@dataclass(frozen=True, eq=False)
class Benchmark:
    """CheXpert 8×200 with its pixels; n = 1,680 images, the candidates first.

    Attributes:
        images: uint8 (n, 1, R, R), greyscale.
        is_query: bool (n,).
        labels: int64 (n,), indices into ``label_names``.
        label_names: names of the eight labels.
        patients: str (n,).
        texts: table of query sentences: ``sentence``, ``label`` (name of the label).
    """

    images: ndarray
    is_query: ndarray
    labels: ndarray
    label_names: tuple[str, ...]
    patients: ndarray
    texts: DataFrame


def read_lists(path: str | Path) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Read the lists; check their labels and row counts, and that no image is both a query and a
    candidate.

    Args:
        path: folder of the cloned lists.

    Returns:
        Tables of the candidate images and of the query images: ``path`` (within CheXpert's folder),
            ``patient``, ``label``; and a
        table of the query sentences: ``sentence``, ``label``.

    Raises:
        UserError: names the missing file or the invalid lines.
    """
    files = [part.required(Path(path).expanduser()) for part in LISTS]
    sentence = Values(r".*\S.*", "a sentence", unique=True)
    candidates = read_columns(
        files[0], {"Path": IMAGE, **dict.fromkeys(OBSERVATIONS, LABEL)}, ORIGIN_OF_LISTS
    )
    images = read_columns(files[1], {"Variable": LABEL_NAME, "Path": IMAGE}, ORIGIN_OF_LISTS)
    texts = read_columns(files[2], {"Variable": LABEL_NAME, "Text": sentence}, ORIGIN_OF_LISTS)
    positive = label_values(candidates[list(OBSERVATIONS)]) == 1
    unclear = [
        f"{place} has no label of 1, or several; expected exactly one."
        for place in candidates.index[positive.sum(axis=1) != 1]
    ]
    refuse_rows(files[0], unclear, ORIGIN_OF_LISTS)
    candidates["Variable"] = positive.idxmax(axis=1)
    mistakes = []
    for file, table, each in zip(files, (candidates, images, texts), EACH, strict=True):
        counts = table["Variable"].value_counts().reindex(LABELS, fill_value=0)
        mistakes += [
            f"{file} has {count} rows for {label}; expected {each}. {ORIGIN_OF_LISTS}"
            for label, count in counts[counts != each].items()
        ]
    candidates = _images(candidates)
    images = _images(images)
    both = images["path"].isin(candidates["path"]).sum()
    if both:
        mistakes.append(
            f"{files[1]} contains {both} images that are also candidates; expected none."
            f" {ORIGIN_OF_LISTS}"
        )
    refuse(mistakes)
    sentences = texts[["Text", "Variable"]].set_axis(["sentence", "label"], axis=1)
    return candidates, images, sentences.reset_index(drop=True)


def prepare_chexpert_8x200(
    settings: Section, *, benchmark: str | Path, cache: str | Path, threads: int
) -> None:
    """Decode the listed images, candidates first, as greyscale squares; only the owner can read the
    files written.

    Args:
        settings: ``path`` (CheXpert's folder), ``lists`` (a clone of ConVIRT's lists),
            ``resolution``, and optionally ``fit``.
        benchmark: .npz file to write, with the sentences in a .parquet file in the same folder;
            read by :func:`read_benchmark`.
        cache: folder of the decoded images; it may be removed afterwards.
        threads: number of decoding threads.

    Raises:
        UserError: if a list or an image is missing or damaged.
    """
    candidates, queries, texts = read_lists(settings["lists"])
    root = RADIOGRAPHS.required(_folder(settings)).parent
    table = pd.concat([candidates, queries], ignore_index=True)
    files = ImageFiles(tuple(root / path for path in table["path"]), ORIGIN)
    privacy.write_table(texts, sentences_of(benchmark), restricted=True)
    with privacy.owner_only(True):
        images = cache_images(
            files,
            cache,
            mode="L",
            resolution=settings["resolution"],
            fit=settings.get("fit", "crop"),
            threads=threads,
        )
        arrays = {
            "images": images,
            "is_query": np.arange(len(table)) >= len(candidates),
            "labels": table["label"].map(LABELS.index).to_numpy(np.int64),
            "patients": table["patient"].to_numpy(str),
        }
        write_arrays(benchmark, arrays)
    log.info(f"CheXpert 8×200: {len(table):,} images and {len(texts)} sentences")


def read_benchmark(path: str | Path) -> Benchmark:
    """Read the benchmark written by :func:`prepare_chexpert_8x200`.

    Raises:
        UserError: if one of the two files is missing or damaged.
    """
    with read_arrays(path, "a file of CheXpert 8×200", remove_both(path)) as archive:
        return Benchmark(
            label_names=LABELS, texts=privacy.read_table(sentences_of(path))[0], **archive
        )


def missing_files(settings: Section) -> list[str]:
    """Report which lists are missing from ``lists``, and whether CheXpert's images are missing from
    ``path``.
    """
    lists = missing_parts(Path(settings["lists"]).expanduser(), LISTS)
    return lists + missing_parts(_folder(settings), (RADIOGRAPHS,))


def user_files(settings: Section) -> UserFiles:
    """Return the lists and the images listed in them."""
    folder = Path(settings["lists"]).expanduser()
    lists = found_parts(folder, LISTS)
    try:
        radiographs = RADIOGRAPHS.required(_folder(settings)).parent
        named = [read_columns(part.required(folder), ["Path"])["Path"] for part in LISTS[:2]]
    except UserError:  # reported by the job that reads the lists
        return UserFiles(lists)
    matches = map(PATH.fullmatch, itertools.chain(*named))
    return UserFiles(lists, [radiographs / match[1] for match in matches if match])


def _folder(settings: Section) -> Path:
    return required_path(
        settings["path"], "chexpert", "train/ (CheXpert-v1.0-small or CheXpert-v1.0)"
    )


def _images(table: DataFrame) -> DataFrame:
    images = table["Path"].str.extract(PATH).set_axis(["path", "patient"], axis=1)
    return images.assign(label=table["Variable"]).reset_index(drop=True)
