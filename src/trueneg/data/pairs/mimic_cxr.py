"""MIMIC-CXR: chest radiographs, sentences from their studies' reports, and MS-CXR's boxes; all data
is restricted.

MIMIC-CXR-JPG, releases 2.0.0 and 2.1.0 (Johnson et al., 2019), in PhysioNet's layout::

    files/p10/p10000032/s50414267/<dicom id>.jpg
    mimic-cxr-2.0.0-metadata.csv.gz               views and sizes of the images
    mimic-cxr-2.0.0-split.csv.gz                  train, validate, test
    mimic-cxr-2.0.0-chexpert.csv.gz               labels of the studies

In release 2.1.0 the tables keep 2.0.0 in their names. Tables may also be decompressed. The image
folders (p10, …) may be in the same folder as the tables, and ``dataset.path`` may be the folder
``files`` itself. The reports belong to a separate dataset, MIMIC-CXR (``mimic-cxr-reports.zip``),
which :mod:`trueneg.data.reports.mimic_cxr` reads and which defines the names of reports
(``s50414267``) and patients (``p10000032``) used here.
"""

from pathlib import Path

import numpy as np
from pandas import DataFrame

from trueneg.data.image_files import ImageFiles
from trueneg.data.images.folder import Part, found_parts, missing_parts, required_path
from trueneg.data.pairs import ms_cxr
from trueneg.data.pairs.chexpert_labels import CHEX5, LABEL, label_values
from trueneg.data.pairs.pair_images import PairImages, Tables, usable
from trueneg.data.reports.mimic_cxr import REPORTS
from trueneg.data.tables import NUMBER, Values, read_columns
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.specs.sections import Section

PAGE = "https://physionet.org/content/mimic-cxr-jpg/"
ORIGIN = (
    "It is part of MIMIC-CXR-JPG 2.0.0 and 2.1.0, available to credentialed users on PhysioNet"
    f" ({PAGE})."
)
EXPECTED = "mimic-cxr-2.0.0-metadata.csv.gz, the other tables, and files/ (MIMIC-CXR-JPG)"


def _table(name: str, what: str) -> Part:
    return Part((f"mimic-cxr-2.0.0-{name}.csv.gz", f"mimic-cxr-2.0.0-{name}.csv"), what, ORIGIN)


METADATA = _table("metadata", "views and sizes of the images")
SPLIT = _table("split", "the official splits")
CHEXPERT = _table("chexpert", "labels of the studies")
RADIOGRAPHS = Part(("files/p1?", "p1?"), "the radiographs, p10 … p19", ORIGIN)
SPLITS = {"train": "train", "validate": "validation", "test": "test"}
PIXELS = Values(r"0*[1-9]\d*", "a positive number of pixels")
IDS = {
    "dicom_id": Values(r".*\S.*", "an image id", unique=True),
    "study_id": NUMBER,
    "subject_id": NUMBER,
}

# The view code is used only if the position is missing.
FRONTAL_POSITIONS = ("AP", "PA")
FRONTAL_CODES = ("antero-posterior", "postero-anterior")
# Nearly every report has findings, an impression or a last paragraph. If more than this share of
# reports, and more than a few, have no text, report files are missing.
WITHOUT_TEXT = 0.1
FEW = 10


def read_images(settings: Section, tables: Tables, threads: int) -> PairImages:
    """Read the frontal or all radiographs as greyscale images; a study can have several. The
    classes of sentences are unknown.

    Every image has the labels of its study. The splits are the official ones, except that all
    patients of MS-CXR are in the test split.
    """
    radiographs = read_radiographs(settings["path"])
    drawn = ms_cxr.NO_BOXES
    if settings["ms_cxr"] is not None:
        drawn = ms_cxr.read_boxes(settings["ms_cxr"], radiographs)
        radiographs = ms_cxr.hold_out(radiographs, drawn)
    if settings["views"] == "frontal":
        radiographs = radiographs[radiographs["frontal"]]
    chosen = usable(radiographs["report"], tables["sentences"], settings["images"])
    images = radiographs[chosen].reset_index(drop=True)
    if settings["images"] is not None:  # only the studies up to the last one in use need reports
        radiographs = radiographs[: np.flatnonzero(chosen)[-1] + 1]
    studies = radiographs["report"].nunique()
    lacking = studies - images["report"].nunique()
    if lacking > max(FEW, WITHOUT_TEXT * studies):
        raise UserError(
            f"mimic_cxr: {lacking:,} of {studies:,} studies have no sentence, so reports are"
            f" missing. {REPORTS.origin}"
        )
    root = RADIOGRAPHS.required(_folder(settings["path"])).parent
    boxes = ms_cxr.image_boxes(
        drawn, images["dicom"].to_numpy(str), settings["resolution"], settings["fit"]
    )
    return PairImages(
        ImageFiles(tuple(root / file for file in images["file"]), ORIGIN),
        images["report"].to_numpy(str),
        images["patient"].to_numpy(str),
        fit=settings["fit"],
        restricted=True,
        labels=read_labels(settings["path"]).reindex(images["report"]),
        tables={"splits": images[["report", "split"]].drop_duplicates("report"), "boxes": boxes},
    )


def missing_files(settings: Section) -> list[str]:
    """Report which files are missing from the folders ``path`` and ``ms_cxr``."""
    missing = missing_parts(_folder(settings["path"]), (METADATA, SPLIT, CHEXPERT, RADIOGRAPHS))
    if settings["ms_cxr"] is not None:
        missing += missing_parts(Path(settings["ms_cxr"]).expanduser(), (ms_cxr.BOXES,))
    return missing


def user_files(settings: Section) -> UserFiles:
    """Return the tables and MS-CXR's boxes, not the 377,000 images: checking them takes minutes and
    releases do not change.
    """
    files = found_parts(_folder(settings["path"]), (METADATA, SPLIT, CHEXPERT))
    if settings["ms_cxr"] is not None:
        files += Path(settings["ms_cxr"]).expanduser().glob("MS_CXR_Local_Alignment_*")
    return UserFiles(files)


def read_radiographs(path: str | Path | None) -> DataFrame:
    """Read the list of images from the tables and check that the tables are consistent; image files
    are not accessed.

    Args:
        path: folder in the layout described in this module.

    Returns:
        ``dicom``, ``report``, ``patient``, ``file`` (path within the images' folder), ``width`` and
            ``height`` (pixels), ``frontal`` (whether the view is AP or PA), ``split`` (train,
            validation, test); sorted by patient, study, id.

    Raises:
        UserError: names the missing table or the invalid lines, and where to get a complete copy.
    """
    folder = _folder(path)
    metadata_file = METADATA.required(folder)
    split_file = SPLIT.required(folder)
    views = {
        "ViewPosition": None,
        "ViewCodeSequence_CodeMeaning": None,
        "Rows": PIXELS,
        "Columns": PIXELS,
    }
    metadata = read_columns(metadata_file, IDS | views, ORIGIN)
    split = read_columns(
        split_file, IDS | {"split": Values("|".join(SPLITS), ", ".join(SPLITS))}, ORIGIN
    )
    joined = metadata.merge(split, on=list(IDS), how="outer", indicator=True)
    for side, file, other in (
        ("left_only", split_file, metadata_file),
        ("right_only", metadata_file, split_file),
    ):
        lacking = (joined["_merge"] == side).sum()
        if lacking:
            raise UserError(
                f"{file} lacks {lacking:,} images of {other}, or has different study or patient"
                f" ids. {ORIGIN}"
            )
    report = "s" + joined["study_id"]
    patient = "p" + joined["subject_id"]
    position = joined["ViewPosition"].str.strip()
    code = joined["ViewCodeSequence_CodeMeaning"].str.strip().str.lower()
    by_code = (position == "") & code.isin(FRONTAL_CODES)
    radiographs = DataFrame(
        {
            "dicom": joined["dicom_id"],
            "report": report,
            "patient": patient,
            "file": (
                patient.str[:3] + "/" + patient + "/" + report + "/" + joined["dicom_id"] + ".jpg"
            ),
            "width": joined["Columns"].astype(int),
            "height": joined["Rows"].astype(int),
            "frontal": position.isin(FRONTAL_POSITIONS) | by_code,
            "split": joined["split"].map(SPLITS),
        }
    )
    return radiographs.sort_values(["patient", "report", "dicom"], ignore_index=True)


def read_labels(path: str | Path | None) -> DataFrame:
    """Read the labels that the CheXpert labeller assigned to studies.

    Args:
        path: folder in the layout described in this module.

    Returns:
        float32 columns cardiomegaly, edema, effusion, pneumonia, pneumothorax, indexed by report:
            1, 0, or NaN if unknown, that
        is, uncertain (-1) or not mentioned (empty).

    Raises:
        UserError: as in :func:`read_radiographs`.
    """
    columns = {"study_id": NUMBER._replace(unique=True), **dict.fromkeys(CHEX5.values(), LABEL)}
    table = read_columns(CHEXPERT.required(_folder(path)), columns, ORIGIN)
    labels = label_values(table[list(CHEX5.values())])
    return labels.set_axis(list(CHEX5), axis=1).set_axis("s" + table["study_id"].to_numpy(object))


def _folder(path: str | Path | None) -> Path:
    """Return the folder that contains the tables."""
    folder = required_path(path, "mimic_cxr", EXPECTED)
    return folder.parent if folder.name == "files" and METADATA.find(folder) is None else folder
