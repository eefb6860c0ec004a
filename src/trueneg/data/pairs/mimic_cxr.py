"""MIMIC-CXR: frontal chest radiographs with the sentences of their studies' reports, and MS-CXR's boxes; all of it restricted."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.image_files import ImageFiles
from trueneg.data.pairs import mimic_cxr_files, ms_cxr
from trueneg.data.pairs.chexpert_labels import CHEX5
from trueneg.data.pairs.image_pairs import joined_sentences, with_sentences, write_image_pairs
from trueneg.data.pairs.mimic_cxr_files import (
    ORIGIN,
    ORIGIN_OF_REPORTS,
    images_folder,
    read_labels,
    read_radiographs,
    read_test_labels,
    user_files,
)
from trueneg.data.pairs.ms_cxr import NO_BOXES, hold_out, image_boxes, read_boxes
from trueneg.data.pairs.pair_source import beside
from trueneg.errors import UserError
from trueneg.text import privacy

log = logging.getLogger(__name__)

__all__ = ["missing_files", "prepare", "user_files"]

LABELS = ("chexpert", "radiologists")
# Nearly every report has findings, an impression or a last paragraph: if more lack them, both a few and this share, reports are
# not there.
WITHOUT_TEXT, FEW = 0.1, 10


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is missing of the folders ``path`` and ``ms_cxr``, a line each."""
    boxes = ms_cxr.missing_files(settings) if settings["ms_cxr"] is not None else []
    return mimic_cxr_files.missing_files(settings) + boxes


def prepare(
    settings: Mapping[str, Any], text: Mapping[str, str | Path], pairs: str | Path, *, cache: str | Path, threads: int
) -> None:
    """Join the frontal radiographs, as grey images, with the sentences of their reports. A study can have several.

    No class of a sentence is known. The splits are the official ones, but that all patients of MS-CXR are tested on.

    Args:
        settings: ``path`` (folder in the layout of :mod:`trueneg.data.pairs.mimic_cxr_files`), ``images`` (of how many
            reports, the first by patient and study; None: all), ``resolution``, ``ms_cxr`` (folder in the layout of
            :mod:`trueneg.data.pairs.ms_cxr`; None: no boxes), ``labels`` (those of the test split: ``"chexpert"``, or
            ``"radiologists"``, which release 2.1.0 has of some test studies: all others' are then unknown).
        text: parquet files by name: ``sentences`` of :func:`trueneg.text.sentences.split_reports`, of reports read as
            ``mimic_cxr``, and ``eta`` of :func:`trueneg.text.eta.write_class_probabilities` (without it no class probability is
            known).
        pairs: .npz file to write, the sentences and the other tables beside it:
            ``splits`` has ``report``, ``split`` (train, validation, test); ``boxes`` is of
            :func:`trueneg.data.pairs.ms_cxr.image_boxes`, without rows where there is no MS-CXR.
        cache: folder of the decoded images.
        threads: that decode.

    Raises:
        UserError: if something is missing or damaged, or the tables do not belong together.
        ValueError: if ``labels`` are neither.
    """
    if settings["labels"] not in LABELS:
        raise ValueError(f"labels is {settings['labels']!r}, expected one of {', '.join(LABELS)}")
    radiographs, drawn = read_radiographs(settings["path"]), NO_BOXES
    if settings["ms_cxr"] is not None:
        drawn = read_boxes(settings["ms_cxr"], radiographs)
        radiographs = hold_out(radiographs, drawn)
    known = privacy.read_table(text["sentences"])[0][["report"]]
    images = _chosen(radiographs[radiographs["frontal"]], known, settings["images"])
    reports, root = images["report"].to_numpy(str), images_folder(settings["path"])
    table, _ = joined_sentences(text["sentences"], reports, eta=text.get("eta"))
    write_image_pairs(
        "mimic_cxr",
        ImageFiles(tuple(root / file for file in images["file"]), ORIGIN),
        mode="L",
        resolution=settings["resolution"],
        cache=cache,
        pairs=pairs,
        threads=threads,
        restricted=True,
        reports=reports,
        patients=images["patient"].to_numpy(str),
        sentences=table,
        labels=_labels(settings, images),
        label_names=tuple(CHEX5),
        shown=np.zeros((len(images), 0), bool),
    )
    privacy.write_table(images[["report", "split"]].drop_duplicates("report"), beside(pairs, "splits"), restricted=True)
    own = image_boxes(drawn, images["dicom"].to_numpy(str), settings["resolution"])
    privacy.write_table(own, beside(pairs, "boxes"), restricted=True)


def _chosen(frontal: pd.DataFrame, sentences: pd.DataFrame, count: int | None) -> pd.DataFrame:
    """The images of the first reports that have sentences."""
    has = with_sentences(frontal["report"].to_numpy(str), sentences, "mimic_cxr")
    by_report = pd.Series(has, index=frontal["report"]).groupby(level=0, sort=False).first()
    if count is not None:
        if count > by_report.sum():
            found = f"{by_report.sum():,} reports have frontal images and sentences"
            raise UserError(f"dataset.images is {count:,}, but {found}; lower it.")
        by_report = by_report[: int(np.flatnonzero(by_report)[count - 1]) + 1]
    lacking = int((~by_report).sum())
    if lacking > max(FEW, WITHOUT_TEXT * len(by_report)):
        raise UserError(
            f"mimic_cxr: {lacking:,} of {len(by_report):,} studies have no sentence, expected reports of nearly all; the reports "
            f"are not complete. {ORIGIN_OF_REPORTS}"
        )
    return frontal[frontal["report"].isin(by_report.index[by_report])].reset_index(drop=True)


def _labels(settings: Mapping[str, Any], images: pd.DataFrame) -> np.ndarray:
    """float32 (n, 5), of the studies; NaN where a study is not labelled."""
    reports = images["report"]
    labels = read_labels(settings["path"]).reindex(reports).to_numpy(np.float32, copy=True)
    if settings["labels"] == "radiologists":
        test = (images["split"] == "test").to_numpy()
        own = read_test_labels(settings["path"])
        labels[test] = own.reindex(reports[test]).to_numpy(np.float32)
        log.info("%s test studies have labels by radiologists", f"{reports[test & reports.isin(own.index)].nunique():,}")
    return labels
