"""Open-I: frontal chest radiographs of the Indiana University collection with their reports.

The reports come with the torchxrayvision wheel (:mod:`trueneg.data.reports.open_i`). The user
provides the images as a folder in one of two layouts. Its table assigns each image to a report and
marks the frontal images, which the reports do not identify:

=========================  =========================================  ==============================
table                      columns                                    images
=========================  =========================================  ==============================
images.csv                 report (CXR12), image, projection          images/
indiana_projections.csv    uid (12), filename, projection             images/images_normalized/, or
images/
=========================  =========================================  ==============================

``projection`` is Frontal or Lateral. Each image's file name must be its id in the report's XML,
without ``CXR`` and with a suffix (``12_IM-0133-1001.dcm.png`` for ``CXR12_IM-0133-1001``); this is
checked.
"""

import logging
import re
from pathlib import Path

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import Part, found_parts, missing_parts, required_path
from trueneg.data.pairs.pair_images import PairImages, Tables, usable
from trueneg.data.reports import open_i
from trueneg.data.reports.open_i import find_archive, image_codes, read_archive
from trueneg.data.reports.open_i_classes import NORMAL, coded_headings
from trueneg.data.tables import Values, read_columns, refuse_rows, wrong_values
from trueneg.io.files import UserFiles, files_in
from trueneg.specs.sections import Section

log = logging.getLogger(__name__)

PLACE = ["report", "index"]  # of a sentence
LAYOUTS = {
    "images.csv": ("report", "image", "projection"),
    "indiana_projections.csv": ("uid", "filename", "projection"),
}
PAGE = "https://openi.nlm.nih.gov/faq"
TABLE = Part(
    tuple(LAYOUTS),
    "the table of images and their reports",
    f"Create it from the reports of Open-I ({PAGE}).",
)
IMAGES = Part(
    ("images/images_normalized", "images"),
    "the radiographs",
    f"Download them from Open-I ({PAGE}).",
)
EXPECTED = (
    "images.csv (report, image, projection), or indiana_projections.csv (uid, filename,"
    " projection), and images/"
)
# The code headings that correspond to each label. MeSH headings for fluid WITH air in the pleural
# space count for two labels.
HEADINGS = {
    "cardiomegaly": {"Cardiomegaly"},
    "edema": {"Pulmonary Edema"},
    "effusion": {"Pleural Effusion", "Hydropneumothorax", "Hemopneumothorax"},
    "pneumonia": {"Pneumonia"},
    "pneumothorax": {"Pneumothorax", "Hydropneumothorax", "Hemopneumothorax"},
}


def read_images(settings: Section, tables: Tables, threads: int) -> PairImages:
    """Read the frontal radiographs as greyscale images; each report counts as a patient because
    patients are unknown.

    ``eta true`` is omitted: nearly half of the sentences have no class, and 0 would be an
    unjustified value for them. The table ``classes`` has ``class`` (number), ``name``, the number
    of ``sentences`` of the class and the number of ``images`` that show it.
    """
    archive = settings["archive"]
    sentences = tables["sentences"]
    images = read_radiographs(settings["path"], archive)
    codes = image_codes(archive)
    images = images[usable(images["report"], sentences, settings["images"])]
    reports = images["report"].to_numpy(str)
    assigned = sentences.loc[sentences["report"].isin(reports), PLACE].merge(
        tables["assigned"], on=PLACE, how="left", validate="one_to_one"
    )
    # a sentence without a class gets −1
    assigned["class"], names = pd.factorize(assigned["class"], sort=True)
    shown = headings_shown(reports, codes, names.tolist())
    counts = np.bincount(assigned["class"][assigned["class"] >= 0], minlength=len(names))
    classes = DataFrame(
        {
            "class": range(len(names)),
            "name": names,
            "sentences": counts,
            "images": shown.sum(0),
        }
    )
    return PairImages(
        ImageFiles(tuple(images["path"])),
        reports,
        patients=reports,
        labels=DataFrame(chexpert_labels(reports, codes), columns=list(HEADINGS)),
        assigned=assigned[[*PLACE, "class"]],
        shown=shown,
        tables={"classes": classes},
    )


def missing_files(settings: Section) -> list[str]:
    """Report which files are missing from the folder ``path``."""
    return missing_parts(Path(settings["path"]).expanduser(), (TABLE, IMAGES))


def user_files(settings: Section) -> UserFiles:
    """Return the table and image folder in ``path``, and the ``archive`` of the reports if one is
    set.
    """
    folder = required_path(settings["path"], "open_i", EXPECTED)
    archive = open_i.user_files({"path": settings["archive"]}).files
    return UserFiles([*archive, *found_parts(folder, (TABLE,))], files_in(IMAGES.find(folder)))


def read_radiographs(path: str | Path | None, archive: str | Path | None = None) -> DataFrame:
    """Read the list of frontal images and check that each image belongs to its report.

    Args:
        path: folder in one of the layouts described in this module.
        archive: archive of the reports, as in :func:`trueneg.data.reports.open_i.find_archive`.

    Returns:
        Table with ``report`` and ``path``, sorted by report, then by file name.

    Raises:
        UserError: names images that are missing, duplicated, or belong to another report.
    """
    folder = required_path(path, "open_i", EXPECTED)
    file = TABLE.required(folder)
    report, image, projection = LAYOUTS[file.name]
    either = Values("Frontal|Lateral", "Frontal or Lateral")
    unique = Values(".*", "an image", unique=True)
    table = read_columns(file, {report: None, image: unique, projection: either})
    table = table.set_axis(["report", "image", "projection"], axis=1)
    if report == "uid":
        table["report"] = "CXR" + table["report"]
    root = IMAGES.required(folder)
    archived = read_archive(find_archive(archive))
    ids_of = {
        name: {node.get("id") for node in xml.iter("parentImage")}
        for name, xml in archived
        if xml is not None
    }
    known = table["report"].isin(ids_of)
    named = zip(table["report"], table["image"], strict=True)
    foreign = np.array(
        [not _is_of(image, ids_of.get(report, set()), report) for report, image in named], bool
    )
    mistakes = wrong_values(
        table, "report", ~known, f"one of the {len(ids_of):,} reports in the archive"
    )
    mistakes += wrong_values(table, "image", known & foreign, "an image of this row's report")
    refuse_rows(file, mistakes)
    frontal = table[table["projection"] == "Frontal"]
    frontal = frontal.assign(number=frontal["report"].str[3:].astype(int))
    frontal = frontal.sort_values(["number", "image"], ignore_index=True)
    log.info(f"{len(frontal):,} frontal images of {frontal['report'].nunique():,} reports")
    return frontal[["report"]].assign(path=frontal["image"].map(root.joinpath))


def _is_of(image: str, ids: set[str | None], report: str) -> bool:
    """Return whether an image's file name matches one of the known image ids of a report."""
    stem = re.sub(r"(\.dcm)?\.(png|jpe?g)$", "", image, flags=re.IGNORECASE)
    return not ids.isdisjoint({stem, f"CXR{stem}", f"{report}_{stem}"})


def chexpert_labels(reports: ndarray, codes: DataFrame) -> ndarray:
    """Derive image labels from the codes that experts assigned to the reports (:data:`HEADINGS`).

    Args:
        reports: str (n,): report of each image.
        codes: table with ``report`` and ``code``, from
            :func:`trueneg.data.reports.open_i.image_codes`.

    Returns:
        float32, shape (n, 5): 1 if the report has a code with one of the label's headings, 0 if it
            has only other codes, NaN if the experts did not index it or it has no code.

    Example:
        >>> codes = pd.DataFrame(
        ...     {
        ...         "report": ["a", "b", "c"],
        ...         "code": ["Pulmonary Edema/mild", "normal", "No Indexing"],
        ...     }
        ... )
        >>> chexpert_labels(np.array(["a", "b", "c", "d"]), codes)[:, 1]
        array([ 1.,  0., nan, nan], dtype=float32)
    """
    headings = coded_headings(codes)
    labels = np.full((len(reports), len(HEADINGS)), np.nan, np.float32)
    for row, report in zip(labels, reports.tolist(), strict=True):
        if report in headings:
            row[:] = [bool(headings[report] & wanted) for wanted in HEADINGS.values()]
    return labels


def headings_shown(reports: ndarray, codes: DataFrame, classes: list[str]) -> ndarray:
    """Return whether a sentence of each class is true of each image, judging by the codes of whole
    reports.

    An image is a FALSE NEGATIVE for a sentence of the class ``Pleural Effusion`` if the experts
    gave the image's report a code with that heading, and for a sentence of the class ``normal``
    (any sentence of a report whose only code is ``normal``) if the image's report is normal too.
    The share of indexed reports that meet this condition is the class's probability in
    :func:`trueneg.data.reports.open_i_classes.assign_classes`. The criterion is coarse in both
    directions: it ignores side and severity, so some of these images are true negatives; the
    statement of a sentence in a normal report (no effusion) is also true of many reports that are
    not normal; and nothing is known about reports that are not indexed, so they count as showing
    nothing.

    Args:
        reports: str (n,): report of each image.
        codes: table with ``report`` and ``code``.
        classes: names of the C classes.

    Returns:
        bool, shape (n, C).

    Example:
        >>> codes = pd.DataFrame(
        ...     {"report": ["a", "b", "b"], "code": ["normal", "Opacity/left", "Cardiomegaly"]}
        ... )
        >>> headings_shown(np.array(["a", "b"]), codes, ["normal", "Opacity"]).tolist()
        [[True, False], [False, True]]
    """
    headings = coded_headings(codes)
    shown = np.zeros((len(reports), len(classes)), bool)
    for image, report in enumerate(reports.tolist()):
        coded = headings.get(report, frozenset())
        shown[image] = [coded == {NORMAL} if name == NORMAL else name in coded for name in classes]
    return shown
