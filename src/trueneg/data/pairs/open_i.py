"""Open-I: frontal chest radiographs of the Indiana University collection, with their reports.

The reports come with the torchxrayvision wheel (:mod:`trueneg.text.open_i`). The images are a folder of the user's, in one of two
layouts, whose table tells which image is of which report, and which are frontal (the reports do not tell):

=========================  =========================================  ====================================================
table                      columns                                    images
=========================  =========================================  ====================================================
images.csv                 report (CXR12), image, projection          images/
indiana_projections.csv    uid (12), filename, projection             images/images_normalized/, or images/
=========================  =========================================  ====================================================

``projection`` is Frontal or Lateral. An image's file name is its id in the report's XML, without ``CXR`` and with a suffix
(``12_IM-0133-1001.dcm.png`` for ``CXR12_IM-0133-1001``), which is checked.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import Part, found_parts, missing_parts, required_path
from trueneg.data.mistakes import refuse
from trueneg.data.pairs.pair_images import PairImages, usable
from trueneg.data.tables import Values, read_columns, wrong_values
from trueneg.io.files import UserFiles, files_in
from trueneg.text import open_i
from trueneg.text.open_i import find_archive, image_codes, read_archive
from trueneg.text.open_i_classes import NORMAL, NOT_INDEXED

log = logging.getLogger(__name__)

LAYOUTS = {
    "images.csv": ("report", "image", "projection"),
    "indiana_projections.csv": ("uid", "filename", "projection"),
}
PAGE = "https://openi.nlm.nih.gov/faq"
TABLE = Part(tuple(LAYOUTS), "which image is of which report", f"Make it from the reports of Open-I ({PAGE}).")
IMAGES = Part(("images/images_normalized", "images"), "the radiographs", f"They are of Open-I ({PAGE}); unpack them there.")
EXPECTED = "images.csv (report, image, projection), or indiana_projections.csv (uid, filename, projection), and images/"
# The headings of the codes that a label stands for. Fluid and air in the pleural space are one heading in MeSH.
HEADINGS = {
    "cardiomegaly": {"Cardiomegaly"},
    "edema": {"Pulmonary Edema"},
    "effusion": {"Pleural Effusion", "Hydropneumothorax", "Hemopneumothorax"},
    "pneumonia": {"Pneumonia"},
    "pneumothorax": {"Pneumothorax", "Hydropneumothorax", "Hemopneumothorax"},
}


def read_images(settings: Mapping[str, Any], tables: Mapping[str, pd.DataFrame], threads: int) -> PairImages:
    """The frontal radiographs, as grey images; a report is a patient, as no other is known.

    ``eta true`` is not given: nearly half of the sentences have no class, and 0 would be a claim. The table ``classes`` has
    ``class`` (number), ``name``, and how many ``sentences`` are of it and ``images`` show it.
    """
    archive, sentences = settings["archive"], tables["sentences"]
    images, codes = read_radiographs(settings["path"], archive), image_codes(archive)
    images = images[usable(images["report"].to_numpy(str), sentences, settings["images"])]
    reports = images["report"].to_numpy(str)
    own = sentences.loc[sentences["report"].isin(set(reports)), ["report", "index"]]
    names, numbered = _numbered(own, tables["assigned"])
    shown = headings_shown(reports, codes, names)
    counts = numbered["class"].value_counts().reindex(range(len(names)), fill_value=0).to_numpy()
    described = {"class": range(len(names)), "name": names, "sentences": counts, "images": shown.sum(0)}
    return PairImages(
        ImageFiles(tuple(images["path"])),
        reports,
        patients=reports,
        labels=pd.DataFrame(chexpert_labels(reports, codes), columns=list(HEADINGS)),
        assigned=numbered,
        shown=shown,
        tables={"classes": pd.DataFrame(described)},
    )


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is missing of the folder ``path``."""
    return missing_parts(Path(settings["path"]).expanduser(), (TABLE, IMAGES))


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The table and the folder of images of ``path``, and the ``archive`` of the reports if one is named."""
    folder = required_path(settings["path"], "open_i", EXPECTED)
    archive = open_i.user_files({"path": settings["archive"]}).files
    return UserFiles([*archive, *found_parts(folder, (TABLE,))], files_in(IMAGES.find(folder)))


def read_radiographs(path: str | Path | None, archive: str | Path | None = None) -> pd.DataFrame:
    """The frontal images, after checking that each belongs to its report.

    Args:
        path: folder in one of the layouts of this module.
        archive: of the reports, as for :func:`trueneg.text.open_i.find_archive`.

    Returns:
        ``report``, ``path``: by report, then by file name.

    Raises:
        UserError: naming what is missing, there twice, or of another report.
    """
    folder = required_path(path, "open_i", EXPECTED)
    file = TABLE.required(folder)
    report, image, projection = LAYOUTS[file.name]
    either, unique = Values("Frontal|Lateral", "Frontal or Lateral"), Values(".*", "an image", unique=True)
    table = read_columns(file, {report: None, image: unique, projection: either})
    table = table.set_axis(["report", "image", "projection"], axis=1)
    if report == "uid":
        table["report"] = "CXR" + table["report"]
    root, known = IMAGES.required(folder), _image_ids(archive)
    unknown = ~table["report"].isin(known)
    rows = zip(table["image"].tolist(), table["report"].tolist(), strict=True)
    foreign = np.array([not _is_of(image, report, known) for image, report in rows], bool)
    mistakes = wrong_values(table, "report", unknown, f"one of the {len(known):,} reports of the archive")
    mistakes += wrong_values(table, "image", ~unknown & foreign, "an image of the row's report, as the archive has it")
    refuse([f"{file}: {mistake}" for mistake in mistakes])
    frontal = table[table["projection"] == "Frontal"]
    found = frontal.assign(number=frontal["report"].str[3:].astype(int)).sort_values(["number", "image"], ignore_index=True)
    log.info("%s frontal images of %s reports", f"{len(found):,}", f"{found['report'].nunique():,}")
    return pd.DataFrame({"report": found["report"], "path": [root / image for image in found["image"]]})


def _image_ids(archive: str | Path | None) -> dict[str, set[str | None]]:
    """The ids of each report's images."""
    reports = read_archive(find_archive(archive))
    return {name: {node.get("id") for node in report.iter("parentImage")} for name, report in reports if report is not None}


def _is_of(image: str, report: str, known: Mapping[str, set[str | None]]) -> bool:
    """Whether an image's file name is an id of one of the report's images."""
    stem = re.sub(r"(\.dcm)?\.(png|jpe?g)$", "", image, flags=re.IGNORECASE)
    return not known.get(report, set()).isdisjoint({stem, f"CXR{stem}", f"{report}_{stem}"})


def chexpert_labels(reports: np.ndarray, codes: pd.DataFrame) -> np.ndarray:
    """Labels of images from the experts' codes of their reports (:data:`HEADINGS`).

    Args:
        reports: str (n,): of each image.
        codes: ``report``, ``code``, from :func:`trueneg.text.open_i.image_codes`.

    Returns:
        float32, shape (n, 5): 1 where the report has a code of the label's headings, 0 where it has others alone, NaN where the
        experts did not index it or it has no code.

    Example:
        >>> codes = pd.DataFrame({"report": ["a", "b", "c"], "code": ["Pulmonary Edema/mild", "normal", "No Indexing"]})
        >>> chexpert_labels(np.array(["a", "b", "c", "d"]), codes)[:, 1]
        array([ 1.,  0., nan, nan], dtype=float32)
    """
    headings = coded_headings(codes)
    labels = np.full((len(reports), len(HEADINGS)), np.nan, np.float32)
    for image, report in enumerate(reports.tolist()):
        if report in headings:
            labels[image] = [bool(headings[report] & wanted) for wanted in HEADINGS.values()]
    return labels


def coded_headings(codes: pd.DataFrame) -> dict[Any, frozenset[str]]:
    """The headings of the codes of each report that the experts indexed; ``normal`` stands for a report alone."""
    heading = codes["code"].str.split("/").str[0].str.strip()
    found = heading.groupby(codes["report"]).agg(frozenset)
    return {report: own for report, own in found.items() if NOT_INDEXED not in own}


def headings_shown(reports: np.ndarray, codes: pd.DataFrame, classes: list[str]) -> np.ndarray:
    """Whether what a sentence of each class says is true of each image, as far as codes of whole reports can tell.

    An image is a FALSE NEGATIVE of a sentence of the class ``Pleural Effusion`` if the experts gave its own report a code with
    that heading, and of a sentence of the class ``normal`` (any sentence of a report whose only code is that) if its own report
    is normal too. The share of indexed reports of which this holds is the class's probability in
    :func:`trueneg.text.open_i_classes.assign_classes`. It is coarse, in both directions: side and severity do not count, so some
    of these images are true negatives; what a sentence of a normal report says (no effusion) is true of many reports that are
    not normal; and of a report that is not indexed nothing is known, so it counts as showing nothing.

    Args:
        reports: str (n,): of each image.
        codes: ``report``, ``code``.
        classes: names of the C classes.

    Returns:
        bool, shape (n, C).

    Example:
        >>> codes = pd.DataFrame({"report": ["a", "b", "b"], "code": ["normal", "Opacity/left", "Cardiomegaly"]})
        >>> headings_shown(np.array(["a", "b"]), codes, ["normal", "Opacity"]).tolist()
        [[True, False], [False, True]]
    """
    headings, shown = coded_headings(codes), np.zeros((len(reports), len(classes)), bool)
    for image, report in enumerate(reports.tolist()):
        own = headings.get(report, frozenset())
        shown[image] = [own == {NORMAL} if name == NORMAL else name in own for name in classes]
    return shown


def _numbered(sentences: pd.DataFrame, assigned: pd.DataFrame) -> tuple[list[str], pd.DataFrame]:
    """The names of the classes that occur, in alphabetical order, and the number of each sentence's class, −1 for none."""
    found = sentences.merge(assigned, on=["report", "index"], how="left", validate="one_to_one")
    number, names = pd.factorize(found["class"], sort=True)  # a sentence without a class gets −1
    return names.tolist(), found[["report", "index"]].assign(**{"class": number.astype(np.int64)})
