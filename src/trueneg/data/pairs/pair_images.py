"""Images that the modules of image–text sources return to :mod:`trueneg.data.pairs.registry`."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from trueneg.data.image_files import EncodedImages
from trueneg.errors import UserError

log = logging.getLogger(__name__)


Tables = Mapping[str, pd.DataFrame]  # tables of a text step, by name


@dataclass(frozen=True, eq=False)
class PairImages:
    """A source's n images and their annotations; sentences are matched by report.

    Args:
        images: encoded images, or decoded images as uint8 of shape (n, channels, R, R).
        reports: str, shape (n,): the report of each image; images of one study share it.
        patients: str, shape (n,): the patient of each image, or its report if patients are unknown;
            no patient is in two splits.
        mode: ``"L"`` (greyscale) or ``"RGB"``.
        fit: how encoded images become squares (:func:`trueneg.data.image_cache.decode_square`).
        restricted: whether images and text are confidential and never shown.
        labels: data frame with n rows and one column per label: 1, 0, or NaN for unknown.
        assigned: table with ``report``, ``index``, ``class``: the class of each sentence; None:
            classes are unknown.
        probabilities: table with ``class``, ``image_probability``: the share of images for which a
            sentence of the class is true; None: unknown.
        shown: bool, shape (n, classes): whether a sentence of the class is true of the image.
        negatives: table with ``report``, ``index``, ``negative``: a hard negative of a sentence, by
            the report of its image; None: there are none.
        tables: additional tables, by name (:data:`trueneg.data.pairs.registry.TABLES`).
        skipped: sentences about rows and hard negatives left out, without names; empty if none.
    """

    images: EncodedImages | np.ndarray
    reports: np.ndarray
    patients: np.ndarray
    mode: str = "L"
    fit: str = "crop"
    restricted: bool = False
    labels: pd.DataFrame = field(default_factory=pd.DataFrame)
    assigned: pd.DataFrame | None = None
    probabilities: pd.DataFrame | None = None
    shown: np.ndarray | None = None
    negatives: pd.DataFrame | None = None
    tables: Tables = field(default_factory=dict)
    skipped: str = ""

    def part(self, positions: list[int]) -> "PairImages":
        """Return the images at some positions, in ascending order; the source has no additional
        tables or `shown`.
        """
        return replace(
            self,
            images=(
                self.images[positions]
                if isinstance(self.images, np.ndarray)
                else self.images.part(positions)
            ),
            reports=self.reports[positions],
            patients=self.patients[positions],
            labels=self.labels.iloc[positions] if len(self.labels) else self.labels,
        )


def check_count(count: int | None, available: int, what: str) -> None:
    """Check that the dataset's setting ``images`` does not exceed the available number.

    Raises:
        UserError: if `count` is larger than `available`.
    """
    if count is not None and count > available:
        raise UserError(
            f"dataset.images is {count:,}; expected at most {available:,}, the number of {what};"
            " lower it."
        )


def usable(
    reports: np.ndarray | pd.Series, sentences: pd.DataFrame, count: int | None
) -> np.ndarray:
    """Select the images of the first `count` reports with sentences (None: all); log how many
    images have no sentence.

    Args:
        reports: str, shape (n,): the report of each image.
        sentences: table with a column ``report``.
        count: the dataset's setting ``images``.

    Returns:
        bool, shape (n,).

    Raises:
        UserError: if no image is usable, or there are fewer reports than `count`.

    Example:
        >>> usable(
        ...     np.array(["b", "b", "c", "a"]), pd.DataFrame({"report": ["a", "b", "b"]}), count=1
        ... ).tolist()
        [True, True, False, False]
    """
    of_images = pd.Series(reports)
    has = of_images.isin(sentences["report"])
    if not has.any():
        raise UserError(
            f"none of the {len(has):,} images has a sentence; expected images and text of the same"
            " data set; correct dataset.text or the paths."
        )
    if not has.all():
        log.info(
            f"{(~has).sum():,} of {len(has):,} images are skipped because their reports have no"
            " sentences"
        )
    available = of_images[has].unique()
    check_count(count, len(available), "reports with images and sentences")
    return (has & of_images.isin(available[:count])).to_numpy()
