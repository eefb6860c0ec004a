"""The user's own images: which are equal, their vectors, what a threshold leaves of their random
negatives, and small copies of them for the pages.
"""

import functools
import hashlib
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy import ndarray
from pandas import DataFrame, Series
from tqdm import tqdm

from trueneg.data.decoding import (
    UnreadableImageError,
    channels_first,
    decode_resized,
    decode_upright,
    map_images,
)
from trueneg.data.doubtful_labels import several_labels_of
from trueneg.data.image_files import EncodedImages
from trueneg.data.leakage import EXAMPLES, shortened
from trueneg.data.mining import BLOCK, DIGITS, normalised_vectors
from trueneg.data.texts.text_rows import ANCHOR, POSITIVE
from trueneg.data.vector_files import read_vectors
from trueneg.evaluation.thumbnails import thumbnail
from trueneg.legible import counted
from trueneg.runtime.devices import leased_device
from trueneg.specs.sections import Section
from trueneg.training.frozen import AT_ONCE, build_tower, image_vectors

SIDE = 200  # pixels of the longer side of a picture
THRESHOLD = 0.5  # of the studies that `trueneg init` writes
QUANTILES = (0.5, 0.9, 0.99)  # of the similarities of the nearest negatives


def contents(images: EncodedImages) -> tuple[Series, Series]:
    """Decode all images.

    Returns:
        A code (uint64) of the pixels of each image that can be read, and what is wrong with each of
            the others, by their positions; images with the same pixels have the same code.
    """
    codes: dict[int, int] = {}
    problems: dict[int, str] = {}
    decoded = map_images(_code, images.read())
    for position, result in enumerate(tqdm(decoded, "images", len(images), disable=None)):
        if isinstance(result, UnreadableImageError):
            problems[position] = str(result)
        else:
            codes[position] = result
    return Series(codes, dtype=np.uint64), Series(problems, dtype=object)


def _code(encoded: bytes | None) -> int:
    image = decode_upright(encoded, "RGB")
    digest = hashlib.sha256(f"{image.size}".encode() + image.tobytes()).digest()
    return int.from_bytes(digest[:8], "little")


def about_images(cells: DataFrame) -> str:
    """Return a sentence about what is repeated or contradictory in images, whatever a model says.

    Args:
        cells: as of :func:`~trueneg.data.texts.text_rows.text_cells`; images are the anchors, and
            their captions, if they have some, the positives.
    """
    images = cells[cells["role"] == ANCHOR]
    captions = cells[cells["role"] == POSITIVE]
    certain = []
    if repeated := int(images["form"].duplicated().sum()):
        equal = images[images["form"].duplicated(keep=False)].groupby("form", sort=False)["text"]
        certain.append(
            f"{counted(repeated, 'image')} with the same pixels as an earlier image, such as"
            f" {_listed(equal.agg(lambda names: ' and '.join(map(shortened, names[:2]))))}"
        )
    names = images["text"].to_numpy(object)
    certain += several_labels_of(images["label"], images["form"].to_numpy(), names, "images")
    of_images = captions.merge(images[["row", "form"]], on="row", suffixes=("", "_image"))
    shared = of_images.groupby("form", sort=False)["form_image"].nunique()
    if several := of_images["form"].isin(shared.index[shared > 1]).to_numpy().nonzero()[0].tolist():
        texts = of_images.loc[several].drop_duplicates("form")["text"]
        certain.append(
            f"{counted(len(texts), 'text')} of several images, such as"
            f" {_listed(map(shortened, texts))}"
        )
    return f"certain without a model: {'; '.join(certain) or 'nothing'}"


def _listed(examples: Iterable[str]) -> str:
    return ", ".join(itertools.islice(examples, EXAMPLES))


class FrozenImages:
    """A frozen image tower, or a file of vectors.

    Args:
        settings: of a tower of images.
        images: the images; a file has one vector per image, in their order.
    """

    def __init__(self, settings: Section, images: EncodedImages) -> None:
        self._settings = settings
        self._images = images

    def __str__(self) -> str:
        """Return the name of its model or file."""
        return str(self._settings.get("model") or self._settings["path"])

    def vectors(self, positions: Sequence[int]) -> ndarray:
        """Return the vectors of the images at some positions, in ascending order, of unit length.

        Raises:
            UserError: if the tower cannot be built, or the file does not fit the images.
        """
        if "path" in self._settings:
            path = self._settings["path"]
            values = read_vectors(path, self._settings["column"], len(self._images), "images")
            values = values if values.ndim == 2 else values[:, 0]
            return normalised_vectors(values[positions])
        made_of: Any = {"training": {"kind": "images"}, "encoder": self._settings}
        tower: Any = build_tower(made_of, "encoder")
        decode = functools.partial(decode_resized, mode="RGB", resolution=tower.size[0])
        encoded = self._images.part(list(positions)).read()
        decoded = iter(tqdm(map(decode, encoded), "vectors", len(positions), disable=None))
        blocks = []
        with leased_device("auto") as device, torch.inference_mode():
            tower.to(device)
            while block := list(itertools.islice(decoded, AT_ONCE)):
                pixels = np.stack(block)
                blocks.append(image_vectors(tower, pixels, _unchanged, False, slice(None)))
        return normalised_vectors(np.concatenate(blocks)[:, 0, :, 0])


def _unchanged(pixels: torch.Tensor, chosen: slice) -> list[torch.Tensor]:
    return [pixels / 255]


def thresholds_of(similarity: ndarray) -> list[float]:
    """Return thresholds that leave out some of the nearest negatives, and that of ``trueneg init``,
    ascending.
    """
    return sorted({THRESHOLD, *np.quantile(similarity, QUANTILES).round(2).tolist()})


def by_threshold(cells: DataFrame, vectors: ndarray, thresholds: Sequence[float]) -> DataFrame:
    """Return what a study leaves of the negatives in random batches if it leaves out those that are
    more similar to the anchor than a threshold.

    Args:
        cells: as for :func:`about_images`, with the ``number`` of each image and text.
        vectors: (T, D) of unit length, by number.
        thresholds: cosines.

    Returns:
        As :func:`trueneg.audit.hard_negatives.by_filter`; a negative is false if it has the label
            or the pixels of its anchor.
    """
    anchors = cells[cells["role"] == ANCHOR]
    captions = cells[cells["role"] == POSITIVE]
    columns = captions if len(captions) else anchors
    weights = 1 / columns.groupby("row")["row"].transform("size").to_numpy()  # one is drawn
    counts = np.zeros((1 + len(thresholds), 2))  # above each; of these, the false
    step = max(1, BLOCK // len(columns))
    for start in range(0, len(anchors), step):
        block = anchors.iloc[start : start + step]
        cosines = (vectors[block["number"]] @ vectors[columns["number"]].T).round(DIGITS)
        is_other = block["row"].to_numpy()[:, None] != columns["row"].to_numpy()
        is_false = block["label"].to_numpy()[:, None] == columns["label"].to_numpy()
        is_false |= block["number"].to_numpy()[:, None] == columns["number"].to_numpy()
        for place, threshold in enumerate((-np.inf, *thresholds)):
            is_above = is_other & (cosines > threshold)
            for column, which in enumerate((is_above, is_above & is_false)):
                counts[place, column] += (which @ weights).sum()
    if not cells["label"].any():
        counts[:, 1] = np.nan  # unknown
    total = counts[0].copy()
    counts[0] = 0
    left = total - counts
    with np.errstate(invalid="ignore"):  # nothing is left, or all are of one label
        return DataFrame(
            {
                "filter": [
                    "none",
                    *(f"threshold={value} in random batches" for value in thresholds),
                ],
                "left": left[:, 0] / total[0],
                "false": left[:, 1] / left[:, 0],
                "false removed": counts[:, 1] / total[1],
                "true removed": (counts[:, 0] - counts[:, 1]) / (total[0] - total[1]),
            }
        )


def pictures(images: EncodedImages, positions: Sequence[int]) -> dict[str, bytes]:
    """Return small WebP copies of the images at some positions, by their names."""
    shown = images.part(sorted(positions))
    decoded = (decode_upright(encoded, "RGB") for encoded in shown.read())
    return {
        shown.name(place): thumbnail(channels_first(image), SIDE)
        for place, image in enumerate(decoded)
    }
