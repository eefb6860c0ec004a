"""MS-CXR: sentences with boxes drawn by radiologists in MIMIC-CXR images (Boecking et al., 2022).

The folder contains the table of PhysioNet's release 1.1.0 (``MS_CXR_Local_Alignment_v1.1.0.csv``)
or 0.1 (``MS_CXR_Local_Alignment_v1.0.0.csv``), with one line per box. The ``.json`` files next to
it contain the same data and are not read. A phrase is a sentence about an image together with its
category; it can have several boxes. The column ``split`` of version 1.1.0 is ignored because it
differs from MIMIC-CXR's splits. Instead, :func:`hold_out` excludes every patient with a box from
training and validation.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.image_cache import square_in
from trueneg.data.images.folder import Part
from trueneg.data.tables import Values, read_columns, refuse_rows, single_spaced, wrong_values

log = logging.getLogger(__name__)

PAGE = "https://physionet.org/content/ms-cxr/"
ORIGIN = (
    f"It is part of MS-CXR 0.1 and 1.1.0, available to credentialed users on PhysioNet ({PAGE})."
)
BOXES = Part(
    ("MS_CXR_Local_Alignment_v1.1.0.csv", "MS_CXR_Local_Alignment_v1.0.0.csv"),
    "the boxes of MS-CXR",
    ORIGIN,
)
NUMBERS = ("x", "y", "w", "h", "image_width", "image_height")
TEXT = Values(r"(?s).*\S.*", "a non-empty text")
CORNERS = ["x0", "y0", "x1", "y1"]
NO_BOXES = DataFrame(
    columns=["dicom", "report", "patient", "width", "height", "sentence", "finding", *CORNERS]
)


def read_boxes(path: str | Path, radiographs: DataFrame) -> DataFrame:
    """Read the boxes and check that they belong to the images.

    Args:
        path: folder with one of the tables described in this module.
        radiographs: table returned by :func:`trueneg.data.pairs.mimic_cxr.read_radiographs`.

    Returns:
        One row per box: ``dicom``, ``report``, ``patient``, ``width`` and ``height`` of the image,
            ``sentence``, ``finding`` (the category), and corners ``x0``, ``y0``, ``x1``, ``y1`` in
            image pixels.

    Raises:
        UserError: names the missing file, or the lines that are invalid or do not match the images.
    """
    file = BOXES.required(Path(path).expanduser())
    table = read_columns(
        file,
        {"dicom_id": None, "category_name": TEXT, "label_text": TEXT, **dict.fromkeys(NUMBERS)},
        ORIGIN,
    )
    by_dicom = radiographs.set_index("dicom", drop=False)
    images = by_dicom.reindex(table["dicom_id"]).set_axis(table.index)
    x, y, width, height, *sizes = (
        pd.to_numeric(table[name], errors="coerce").astype(np.float64) for name in NUMBERS
    )
    unknown = images["file"].isna()
    right = x + width
    bottom = y + height
    inside = (right > 0) & (bottom > 0) & (x < images["width"]) & (y < images["height"])
    valid = inside & (width > 0) & (height > 0) & np.isfinite(right) & np.isfinite(bottom)
    mistakes = ["the table contains no boxes."] if table.empty else []
    mistakes += wrong_values(table, "dicom_id", unknown, "an image of MIMIC-CXR-JPG's metadata")
    for side, size in zip(("width", "height"), sizes, strict=True):
        differs = ~unknown & (size != images[side])
        mistakes += wrong_values(table, f"image_{side}", differs, "that of MIMIC-CXR-JPG")
    table["box"] = table["x"].str.cat(table[["y", "w", "h"]], sep=", ")
    mistakes += wrong_values(table, "box", ~unknown & ~valid, "x, y, w and h of a box in the image")
    refuse_rows(file, mistakes, ORIGIN)
    boxes = images[["dicom", "report", "patient", "width", "height"]].assign(
        sentence=single_spaced(table["label_text"]),
        finding=single_spaced(table["category_name"]),
        x0=x,
        y0=y,
        x1=right,
        y1=bottom,
    )
    boxes = boxes.astype({"width": int, "height": int})
    log.info(f"MS-CXR: {len(boxes):,} boxes in {boxes['dicom'].nunique():,} images")
    return boxes.reset_index(drop=True)


def hold_out(radiographs: DataFrame, boxes: DataFrame) -> DataFrame:
    """Move every patient with a box to the test split, so that they are not used for training or
    model selection.

    Args:
        radiographs: table with ``patient`` and ``split``.
        boxes: table with ``patient``.

    Example:
        >>> images = pd.DataFrame(
        ...     {"patient": ["p1", "p1", "p2"], "split": ["train", "train", "validation"]}
        ... )
        >>> hold_out(images, pd.DataFrame({"patient": ["p1"]}))["split"].tolist()
        ['test', 'test', 'validation']
    """
    with_box = radiographs["patient"].isin(boxes["patient"])
    moved = with_box & (radiographs["split"] != "test")
    log.info(f"moved {moved.sum():,} images of MS-CXR patients to the test split")
    return radiographs.assign(split=radiographs["split"].mask(with_box, "test"))


def image_boxes(boxes: DataFrame, dicoms: ndarray, resolution: int, fit: str) -> DataFrame:
    """Convert the boxes in the given images to pixel coordinates of the square images.

    Args:
        boxes: table returned by :func:`read_boxes`.
        dicoms: str (n,): ids of a source's images, in the order of the source.
        resolution: side of the squares, in pixels.
        fit: how the images become squares (:func:`trueneg.data.image_cache.square_in`).

    Returns:
        The input of :func:`trueneg.evaluation.pairs.grounding.boxed_phrases`: ``report``, ``image``
            (position in the source), ``sentence``, ``class`` (−1: unknown), ``finding``, and the
            corners. Corners may lie outside the square because the grounding function computes the
            visible share of each box, which requires the whole box.
    """
    present = boxes[boxes["dicom"].isin(dicoms)].reset_index(drop=True)
    if len(present) < len(boxes):
        log.warning(
            f"{len(boxes) - len(present):,} of {len(boxes):,} boxes of MS-CXR are skipped because"
            " the study does not contain their images"
        )
    rows = present[[*CORNERS, "width", "height"]].astype(np.float64).to_numpy()
    squares = [to_square(row[:4], row[4:], resolution, fit) for row in rows.tolist()]
    present[CORNERS] = np.array(squares, np.float64).reshape(-1, 4)
    present["image"] = pd.Index(dicoms).get_indexer(present["dicom"])
    present["class"] = -1
    return present[["report", "image", "sentence", "class", "finding", *CORNERS]]


def to_square(box: Sequence[float], size: Sequence[int], resolution: int, fit: str) -> list[float]:
    """Convert a box to pixel coordinates of the image's square, without clipping.

    Args:
        box: corners (x0, y0, x1, y1) at pixel edges, in pixels of the image.
        size: (width, height) of the image.
        resolution, fit: side of the square in pixels, and how it is made
            (:func:`trueneg.data.image_cache.square_in`).

    Example:
        >>> to_square(
        ...     [0, 0, 200, 100], (400, 200), 100, "crop"
        ... )  # the square omits the left 50 of 200 columns
        [-50.0, 0.0, 50.0, 50.0]
        >>> to_square([0, 0, 200, 100], (400, 200), 100, "stretch")
        [0.0, 0.0, 50.0, 50.0]
    """
    resized, corner = square_in(size, resolution, fit)
    return [
        value * resized[axis] / size[axis] - corner[axis]
        for axis, value in zip((0, 1, 0, 1), box, strict=True)
    ]
