"""MIMIC-CXR-JPG's files, releases 2.0.0 and 2.1.0 (Johnson et al., 2019), as PhysioNet lays them out::

    files/p10/p10000032/s50414267/<dicom id>.jpg
    mimic-cxr-2.0.0-metadata.csv.gz               views and sizes of the images
    mimic-cxr-2.0.0-split.csv.gz                  train, validate, test
    mimic-cxr-2.0.0-chexpert.csv.gz               labels of the studies
    mimic-cxr-2.1.0-test-set-labeled.csv          radiologists' labels of test studies, in release 2.1.0 alone

The tables keep 2.0.0 in their names in release 2.1.0, and may be unpacked. The images' folders (p10, …) may lie beside the
tables, and ``dataset.path`` may be the folder ``files`` itself. The reports are another data set, MIMIC-CXR
(``mimic-cxr-reports.zip``), whose reader is :func:`trueneg.text.reports.read_mimic_cxr`; reports (``s50414267``) and patients
(``p10000032``) have the names that it gives them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from trueneg.data.images.folder import contents, required_path
from trueneg.data.mistakes import refuse
from trueneg.data.pairs.chexpert_labels import CHEX5, known, label_mistakes, label_values
from trueneg.data.pairs.image_pairs import read_columns
from trueneg.errors import UserError
from trueneg.io.files import UserFiles

PAGE = "https://physionet.org/content/mimic-cxr-jpg/"
REPORTS_PAGE = "https://physionet.org/content/mimic-cxr/"
ORIGIN = f"It is part of MIMIC-CXR-JPG 2.0.0 and 2.1.0, which PhysioNet gives to credentialed users ({PAGE})."
ORIGIN_OF_TEST_LABELS = f"It is part of MIMIC-CXR-JPG 2.1.0 alone, which PhysioNet gives to credentialed users ({PAGE})."
ORIGIN_OF_REPORTS = f"They are mimic-cxr-reports.zip of MIMIC-CXR 2.0.0 or 2.1.0 on PhysioNet ({REPORTS_PAGE})."
EXPECTED = "mimic-cxr-2.0.0-metadata.csv.gz, the tables beside it, and files/ (MIMIC-CXR-JPG)"
METADATA, SPLIT, CHEXPERT = (f"mimic-cxr-2.0.0-{name}.csv" for name in ("metadata", "split", "chexpert"))
TEST_LABELS = "mimic-cxr-2.1.0-test-set-labeled.csv"
SPLITS = {"train": "train", "validate": "validation", "test": "test"}
IDS = ("dicom_id", "study_id", "subject_id")
GROUPS = "p[0-9][0-9]"  # the folders p10 … p19

# Where the position is missing, the code of the view can tell.
FRONTAL_POSITIONS = ("AP", "PA")
FRONTAL_CODES = ("antero-posterior", "postero-anterior")


def read_radiographs(path: str | Path | None) -> pd.DataFrame:
    """All images of the tables, after checking that the tables fit each other; no image is looked for yet.

    Args:
        path: folder in the layout of this module.

    Returns:
        ``dicom``, ``report``, ``patient``, ``file`` (path within the images' folder), ``width`` and ``height`` (pixels),
        ``frontal`` (an antero-posterior or postero-anterior view), ``split`` (train, validation, test): by patient, study, id.

    Raises:
        UserError: naming the table, and the lines, that are missing or damaged, and where a whole copy is had.
    """
    folder = _tables(path)
    metadata_file, split_file = _table(folder, METADATA), _table(folder, SPLIT)
    views = ("ViewPosition", "ViewCodeSequence_CodeMeaning", "Rows", "Columns")
    metadata = read_columns(metadata_file, (*IDS, *views), ORIGIN)
    split = read_columns(split_file, (*IDS, "split"), ORIGIN)
    refuse(
        [
            *(f"{metadata_file}: {mistake}" for mistake in (*_id_mistakes(metadata), *_size_mistakes(metadata))),
            *(f"{split_file}: {mistake}" for mistake in (*_id_mistakes(split), *_split_mistakes(split))),
        ]
    )
    joined = metadata.merge(split, on=list(IDS), how="outer", indicator=True)
    for side, file, other in (("left_only", split_file, metadata_file), ("right_only", metadata_file, split_file)):
        lacking = (joined["_merge"] == side).sum()
        if lacking:
            raise UserError(f"{file}: lacks {lacking:,} images, with their studies and patients, that {other} has. {ORIGIN}")
    report, patient = "s" + joined["study_id"], "p" + joined["subject_id"]
    position, code = joined["ViewPosition"].str.strip(), joined["ViewCodeSequence_CodeMeaning"].str.strip()
    found = pd.DataFrame(
        {
            "dicom": joined["dicom_id"],
            "report": report,
            "patient": patient,
            "file": patient.str[:3] + "/" + patient + "/" + report + "/" + joined["dicom_id"] + ".jpg",
            "width": joined["Columns"].astype(int),
            "height": joined["Rows"].astype(int),
            "frontal": position.isin(FRONTAL_POSITIONS) | ((position == "") & code.str.lower().isin(FRONTAL_CODES)),
            "split": joined["split"].map(SPLITS),
        }
    )
    return found.sort_values(["patient", "report", "dicom"], ignore_index=True)


def images_folder(path: str | Path | None) -> Path:
    """The folder that holds the folders p10, …, wherever it lies.

    Raises:
        UserError: if there is none.
    """
    folder = _tables(path)
    found = next((root for root in (folder / "files", folder) if any(root.glob(GROUPS))), None)
    if found is None:
        raise UserError(f"{folder}: has no folder files/p10 or the like (found {contents(folder)}), the images. {ORIGIN}")
    return found


def read_labels(path: str | Path | None) -> pd.DataFrame:
    """CheXpert's labels of the studies that it has labelled.

    Returns:
        float32 columns cardiomegaly, edema, effusion, pneumonia, pneumothorax, indexed by report: 1, 0, and NaN for unknown,
        which uncertain (-1) and not mentioned (nothing) are.

    Raises:
        UserError: as :func:`read_radiographs`.
    """
    return _labels(_table(_tables(path), CHEXPERT), ORIGIN)


def read_test_labels(path: str | Path | None) -> pd.DataFrame:
    """The labels that radiologists gave to studies of the test split, as :func:`read_labels` gives CheXpert's."""
    return _labels(_table(_tables(path), TEST_LABELS, packed=False), ORIGIN_OF_TEST_LABELS)


def missing_files(settings: Mapping[str, Any]) -> list[str]:
    """What is not there of what :func:`trueneg.data.pairs.mimic_cxr.prepare_mimic_cxr_pairs` needs, a line each.

    Args:
        settings: ``path``, ``labels``.
    """
    folder = _tables(settings["path"])
    tables = [_table(folder, name) for name in (METADATA, SPLIT, CHEXPERT)]
    lacking = [table.name for table in tables if not table.is_file()]
    found = []
    if lacking:
        found.append(f"{', '.join(lacking)} in {folder}: of MIMIC-CXR-JPG 2.0.0 or 2.1.0, PhysioNet, credentialed: {PAGE}")
    if settings["labels"] == "radiologists" and not _table(folder, TEST_LABELS, packed=False).is_file():
        found.append(f"{TEST_LABELS} in {folder}: of MIMIC-CXR-JPG 2.1.0, PhysioNet, credentialed: {PAGE}")
    if not any(any(root.glob(GROUPS)) for root in (folder / "files", folder)):
        found.append(f"the radiographs, files/p10 … p19 in {folder}: of MIMIC-CXR-JPG, PhysioNet, credentialed: {PAGE}")
    return found


def missing_reports(settings: Mapping[str, Any]) -> list[str]:
    """The same for the reports of a likelihood study.

    Args:
        settings: ``path`` of the reports.
    """
    folder = Path(settings["path"]).expanduser()
    for root in (folder / "mimic-cxr-reports" / "files", folder / "files", folder):
        if next(root.glob(f"{GROUPS}/p*/s*.txt"), None) is not None:
            return []
    return [f"the reports in {folder}: mimic-cxr-reports.zip of MIMIC-CXR, PhysioNet, credentialed: {REPORTS_PAGE}"]


def user_files(settings: Mapping[str, Any]) -> UserFiles:
    """The tables, and MS-CXR's boxes. Not the images: looking at 377,000 files takes minutes, and releases do not change.

    Args:
        settings: ``path``, ``ms_cxr``.
    """
    folder = _tables(settings["path"])
    tables = [_table(folder, name, packed=name != TEST_LABELS) for name in (METADATA, SPLIT, CHEXPERT, TEST_LABELS)]
    boxes = [] if settings["ms_cxr"] is None else Path(settings["ms_cxr"]).expanduser().glob("MS_CXR_Local_Alignment_*")
    return UserFiles([*tables, *boxes])


def _tables(path: str | Path | None) -> Path:
    """The folder of the tables."""
    folder = required_path(path, "mimic_cxr", EXPECTED)
    inside = folder.name == "files" and not _table(folder, METADATA).is_file()
    return folder.parent if inside else folder


def _table(folder: Path, name: str, packed: bool = True) -> Path:
    """A table, packed or unpacked; where neither is there, as PhysioNet has it."""
    names = (f"{name}.gz", name) if packed else (name, f"{name}.gz")
    return next((folder / name for name in names if (folder / name).is_file()), folder / names[0])


def _id_mistakes(table: pd.DataFrame) -> list[str]:
    found = [
        f"{place}: {column} is {value!r}, expected a number. {ORIGIN}"
        for column in ("study_id", "subject_id")
        for place, value in table.loc[~table[column].str.fullmatch(r"\d+"), column].items()
    ]
    empty, twice = table["dicom_id"].str.strip() == "", table["dicom_id"].duplicated()
    found += [f"{place}: dicom_id is empty, expected an image's id. {ORIGIN}" for place in table.index[empty]]
    return found + [f"{place}: dicom_id is that of an earlier line. {ORIGIN}" for place in table.index[twice & ~empty]]


def _size_mistakes(table: pd.DataFrame) -> list[str]:
    return [
        f"{place}: {column} is {value!r}, expected a number of pixels. {ORIGIN}"
        for column in ("Rows", "Columns")
        for place, value in table.loc[~table[column].str.fullmatch(r"0*[1-9]\d*"), column].items()
    ]


def _split_mistakes(table: pd.DataFrame) -> list[str]:
    unknown = ~table["split"].isin(list(SPLITS))
    found = [
        f"{place}: split is {value!r}, expected {', '.join(SPLITS)}. {ORIGIN}"
        for place, value in table.loc[unknown, "split"].items()
    ]
    first = table.groupby("subject_id")["split"].transform("first")
    divided = table.index[(table["split"] != first) & ~unknown]
    return found + [f"{place}: the patient is in another split before, expected one for each. {ORIGIN}" for place in divided]


def _labels(file: Path, origin: str) -> pd.DataFrame:
    table = read_columns(file, ("study_id", *CHEX5.values()), origin)
    labels = table[list(CHEX5.values())].apply(lambda column: column.str.strip())
    wrong = ~table["study_id"].str.fullmatch(r"\d+")
    mistakes = [f"{place}: study_id is {value!r}, expected a number." for place, value in table.loc[wrong, "study_id"].items()]
    mistakes += [f"{place}: study_id is that of an earlier line." for place in table.index[table["study_id"].duplicated()]]
    refuse([f"{file}: {mistake} {origin}" for mistake in (*mistakes, *label_mistakes(labels))])
    return pd.DataFrame(known(label_values(labels)), index="s" + table["study_id"].to_numpy(object), columns=list(CHEX5))
