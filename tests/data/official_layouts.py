"""Tiny data sets in their official layouts: pictures of noise, invented patients and sentences.

Each writer writes the files that a user would unpack. Tests compare the sources with the functions
that define the content.
"""

import csv
import gzip
import io
import itertools
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from PIL import Image

from tests.data.pictures import write_picture
from trueneg.data.reports.open_i import ARCHIVE

OBSERVATIONS = (
    *(
        "Atelectasis",
        "Cardiomegaly",
        "Consolidation",
        "Edema",
        "Enlarged Cardiomediastinum",
        "Fracture",
        "Lung Lesion",
    ),
    *(
        "Lung Opacity",
        "No Finding",
        "Pleural Effusion",
        "Pleural Other",
        "Pneumonia",
        "Pneumothorax",
        "Support Devices",
    ),
)
CHEXPERT_OBSERVATIONS = (
    *(
        "No Finding",
        "Enlarged Cardiomediastinum",
        "Cardiomegaly",
        "Lung Opacity",
        "Lung Lesion",
        "Edema",
        "Consolidation",
    ),
    *(
        "Pneumonia",
        "Atelectasis",
        "Pneumothorax",
        "Pleural Effusion",
        "Pleural Other",
        "Fracture",
        "Support Devices",
    ),
)
FINDINGS = ("Cardiomegaly", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax")


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file, compressed if its name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


class Radiograph(NamedTuple):
    """An image of MIMIC-CXR-JPG; its view and the view's code mean ``frontal``."""

    dicom: str
    subject: str
    study: str
    view: str
    code: str
    width: int
    height: int
    split: str
    frontal: bool

    @property
    def file(self) -> str:
        return f"p{self.subject[:2]}/p{self.subject}/s{self.study}/{self.dicom}.jpg"


def mimic_cxr(patients: int = 10) -> list[Radiograph]:
    """Make patients with one or two studies of two or three images; patients 7 and 8 of ten are for
    validation and test.
    """
    radiographs = []
    for number in range(patients):
        subject = f"1{number % 10}{number:06}"
        split = {7: "validate", 8: "test"}.get(number % 10, "train")
        for part in range(1 + number % 2):
            study = f"5{2 * number + part:07}"
            views = [("PA", "postero-anterior", True), ("LATERAL", "lateral", False)]
            if number % 3 == 1:
                views = [
                    ("", "antero-posterior", True),
                    ("AP", "antero-posterior", True),
                    ("", "", False),
                ]
            for place, (view, code, frontal) in enumerate(views):
                dicom = "-".join(
                    f"{16 * number + 4 * part + place:02x}{word:06x}" for word in range(5)
                )
                size = (40 + 3 * place, 48 - number % 5) if number % 2 else (52 + number % 4, 36)
                radiographs.append(
                    Radiograph(dicom, subject, study, view, code, *size, split, frontal)
                )
    return radiographs


def mimic_labels(radiographs: Sequence[Radiograph]) -> dict[str, dict[str, str]]:
    """Return the CheXpert labeller's values of each study, as strings; the last study has none."""
    studies = list(dict.fromkeys(radiograph.study for radiograph in radiographs))
    written = ("1.0", "0.0", "", "-1.0")
    return {
        study: {name: written[(number + place) % 4] for place, name in enumerate(OBSERVATIONS)}
        for number, study in enumerate(studies[:-1])
    }


def write_mimic_cxr(folder: Path, patients: int = 10, *, images: str = "files") -> list[Radiograph]:
    """Write MIMIC-CXR-JPG 2.0.0 with its images in a folder by the tables."""
    radiographs = mimic_cxr(patients)
    for seed, image in enumerate(radiographs):
        write_picture(
            folder / images / image.file, seed, width=image.width, height=image.height, mode="L"
        )
    head = [
        "dicom_id",
        "subject_id",
        "study_id",
        "PerformedProcedureStepDescription",
        "ViewPosition",
        "Rows",
        "Columns",
    ]
    head += [
        "StudyDate",
        "ViewCodeSequence_CodeMeaning",
        "PatientOrientationCodeSequence_CodeMeaning",
    ]
    rows = [
        (
            i.dicom,
            i.subject,
            i.study,
            "CHEST",
            i.view,
            i.height,
            i.width,
            "21800506",
            i.code,
            "Erect",
        )
        for i in radiographs
    ]
    write_csv(folder / "mimic-cxr-2.0.0-metadata.csv.gz", head, rows)
    splits = [
        (image.dicom, image.study, image.subject, image.split) for image in reversed(radiographs)
    ]
    write_csv(
        folder / "mimic-cxr-2.0.0-split.csv.gz",
        ["dicom_id", "study_id", "subject_id", "split"],
        splits,
    )
    subject_of = {image.study: image.subject for image in radiographs}
    labels = [
        (subject_of[study], study, *values.values())
        for study, values in mimic_labels(radiographs).items()
    ]
    write_csv(
        folder / "mimic-cxr-2.0.0-chexpert.csv.gz",
        ["subject_id", "study_id", *OBSERVATIONS],
        labels,
    )
    return radiographs


def mimic_sentences(study: str) -> list[str]:
    """Return the sentences of a study's report."""
    number = int(study[1:])
    said = [f"There is a sign of {FINDINGS[number % 5].lower()}."] if number % 4 else []
    return [*said, f"No {FINDINGS[(number + 2) % 5].lower()}.", "The bones look well."]


def write_mimic_reports(
    folder: Path, radiographs: Sequence[Radiograph], *, without: Sequence[str] = ()
) -> None:
    """Write MIMIC-CXR's reports, one text file per study with sections; the studies in `without`
    have no usable text.
    """
    for image in radiographs:
        *findings, impression = mimic_sentences(image.study)
        path = (
            folder / "files" / f"p{image.subject[:2]}" / f"p{image.subject}" / f"s{image.study}.txt"
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (
            f"FINDINGS:\n {' '.join(findings)}\n\n IMPRESSION:\n {impression}\n"
            if image.study not in without
            else ""
        )
        path.write_text(f" EXAMINATION: CHEST\n\n {text}")


class Box(NamedTuple):
    """A box of MS-CXR, in pixels of its image."""

    image: Radiograph
    category: str
    phrase: str
    x: int
    y: int
    width: int
    height: int


def ms_cxr(radiographs: Sequence[Radiograph]) -> list[Box]:
    """Draw a phrase with two boxes and one with one box on the first frontal image of the first two
    of every five patients.
    """
    boxes = []
    first = {image.subject: image for image in reversed(radiographs) if image.frontal}
    for subject in sorted(first):
        if int(subject[2:]) % 5 < 2:
            image, finding = first[subject], FINDINGS[int(subject[2:]) % 5]
            boxes.append(Box(image, finding, f"{finding.lower()}, on both sides", 2, 3, 14, 20))
            boxes.append(Box(image, "Lung Opacity", "a vague opacity below", 9, 20, 22, 9))
            boxes.append(Box(image, finding, f"{finding.lower()}, on both sides", 20, 3, 12, 20))
    return boxes


def write_ms_cxr(folder: Path, boxes: Sequence[Box], *, version: str = "1.1.0") -> Path:
    """Write MS-CXR's table, one line per box."""
    path = folder / f"MS_CXR_Local_Alignment_v{version}.csv"
    folder.mkdir(parents=True, exist_ok=True)
    head = [
        "dicom_id",
        "category_name",
        "label_text",
        "path",
        "x",
        "y",
        "w",
        "h",
        "image_width",
        "image_height",
    ]
    rows = [
        (
            box.image.dicom,
            box.category,
            box.phrase,
            f"files/{box.image.file}",
            *box[3:],
            box.image.width,
            box.image.height,
        )
        for box in boxes
    ]
    if version == "1.1.0":  # has splits, which differ from MIMIC-CXR's
        head, rows = [*head, "split"], [(*row, "train") for row in rows]
    write_csv(path, head, rows)
    return path


CHEXPERT_HEAD = ["Path", "Sex", "Age", "Frontal/Lateral", "AP/PA", *CHEXPERT_OBSERVATIONS]
EIGHT = (
    *(
        "No Finding",
        "Cardiomegaly",
        "Edema",
        "Pneumonia",
        "Atelectasis",
        "Pneumothorax",
        "Pleural Effusion",
        "Fracture",
    ),
)


class Retrieval8x200(NamedTuple):
    """Paths within CheXpert's folder and sentences, each with its label."""

    candidates: list[tuple[str, str]]
    images: list[tuple[str, str]]
    texts: list[tuple[str, str]]


def chexpert_8x200() -> Retrieval8x200:
    """Make 1,600 candidates, 80 image queries (six of candidates' patients) and 40 sentences, with
    the labels shuffled.
    """
    order = np.random.default_rng(0).permutation(1600)
    candidates = [
        (f"train/patient{number:05}/study1/view1_frontal.jpg", EIGHT[number % 8])
        for number in order.tolist()
    ]
    images = [
        (
            f"train/patient{number if number < 6 else 2000 + number:05}/study9/view1_frontal.jpg",
            EIGHT[number % 8],
        )
        for number in range(80)
    ]
    texts = [
        (f"Sentence {number} on {EIGHT[number % 8].lower()}.", EIGHT[number % 8])
        for number in range(40)
    ]
    return Retrieval8x200(candidates, images, texts)


def write_convirt_lists(
    folder: Path, lists: Retrieval8x200, *, prefix: str = "CheXpert-v1.0-small"
) -> None:
    """Write the four lists, without a final line break, like the real ones."""
    rows = []
    for path, label in lists.candidates:
        values = ("1.0" if name == label else "0.0" for name in CHEXPERT_OBSERVATIONS)
        rows.append((f"{prefix}/{path}", "Female", 50, "Frontal", "AP", *values))
    for kind in ("image-retrieval", "text-retrieval"):
        write_csv(folder / kind / "candidate.csv", CHEXPERT_HEAD, rows)
    queries = [(label, f"{prefix}/{path}") for path, label in lists.images]
    write_csv(folder / "image-retrieval" / "query.csv", ["Variable", "Path"], queries)
    write_csv(
        folder / "text-retrieval" / "query.csv",
        ["Variable", "Text"],
        [(label, text) for text, label in lists.texts],
    )
    for path in folder.rglob("*.csv"):
        path.write_bytes(path.read_bytes().rstrip(b"\n"))


def write_chexpert_pictures(folder: Path, labelled: Iterable[tuple[str, str]]) -> None:
    """Write tiny pictures whose brightness depends on the label."""
    generator = np.random.default_rng(1)
    for path, label in labelled:
        grey = 16 + 30 * EIGHT.index(label) + generator.integers(-12, 13)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((9, 10), grey, np.uint8)).save(folder / path)


def flickr30k_splits(photographs: int = 12) -> dict[str, str]:
    """Return Karpathy's split of each file; it is empty for two of twelve photographs, which he
    left out.
    """
    kinds = ["train"] * 6 + ["val"] * 2 + ["test"] * 2 + [""] * 2
    return {f"{1000 + number}.jpg": kinds[number % 12] for number in range(photographs)}


def flickr30k_captions(name: str) -> list[str]:
    return [f"Caption {number} of {name} ." for number in range(5)]


def write_flickr30k(
    folder: Path,
    *,
    captions: str = "token",
    images: str = "flickr30k-images",
    photographs: int = 12,
) -> None:
    """Write Flickr30k with captions in results_20130124.token, in Kaggle's results.csv, or only in
    Karpathy's file ("json").
    """
    splits = flickr30k_splits(photographs)
    for seed, name in enumerate(splits):
        write_picture(folder / images / name, seed)
    entries = []
    for number, (name, split) in enumerate(splits.items()):
        sentences = [
            {"raw": text, "tokens": text.lower().split()} for text in flickr30k_captions(name)
        ]
        entries += (
            [{"imgid": number, "filename": name, "split": split, "sentences": sentences}]
            if split
            else []
        )
    (folder / "dataset_flickr30k.json").write_text(
        json.dumps({"images": entries, "dataset": "flickr30k"})
    )
    listed = [
        (name, number, text)
        for name in splits
        for number, text in enumerate(flickr30k_captions(name))
    ]
    if captions == "token":
        lines = [f"{name}#{number}\t{text}\n" for name, number, text in listed]
        (folder / "results_20130124.token").write_text("".join(lines))
    elif captions == "kaggle":
        lines = [
            "image_name| comment_number| comment\n",
            *(f"{name}| {number}| {text}\n" for name, number, text in listed),
        ]
        (folder / "results.csv").write_text("".join(lines))


def photograph_table(
    contents: Mapping[str, bytes], captions: Sequence[Sequence[str]], splits: Sequence[str]
) -> pa.Table:
    """Make the parquet layout of Flickr8k and Flickr30k; `contents`: name → image file."""
    images = [{"bytes": content, "path": name} for name, content in contents.items()]
    kind = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    return pa.table({"image": pa.array(images, kind), "captions": captions, "split": splits})


OPEN_I_XML = """<eCitation><uId id="CXR{number}"/><Abstract>
<AbstractText Label="FINDINGS">{findings}</AbstractText>
<AbstractText Label="IMPRESSION">{impression}</AbstractText>
</Abstract><MeSH>{codes}</MeSH>{images}</eCitation>"""


def write_open_i_reports(
    folder: Path, reports: Mapping[int, tuple[str, str, list[str], list[str]]]
) -> None:
    """Write the archive with one XML file per report; `reports`: number → findings, impression,
    codes and ids of the images.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(folder / ARCHIVE, "w:gz") as archive:
        for number, (findings, impression, codes, images) in reports.items():
            nodes = {
                "findings": findings,
                "impression": impression,
                "codes": "".join(f"<major>{code}</major>" for code in codes),
            }
            nodes["images"] = "".join(f'<parentImage id="{image}"/>' for image in images)
            data = OPEN_I_XML.format(number=number, **nodes).encode()
            member = tarfile.TarInfo(f"ecgen-radiology/{number}.xml")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def write_open_i_images(
    folder: Path,
    files: Mapping[str, tuple[int, str]],
    *,
    table: str = "images.csv",
    images: str = "images",
) -> None:
    """Write Open-I's radiographs and their table; `files`: name without suffix → number of the
    report, projection.
    """
    rows = []
    for seed, (name, (number, projection)) in enumerate(files.items()):
        write_picture(folder / images / f"{name}.dcm.jpg", seed)
        rows.append(
            (f"CXR{number}" if table == "images.csv" else number, f"{name}.dcm.jpg", projection)
        )
    columns = (
        ["report", "image", "projection"]
        if table == "images.csv"
        else ["uid", "filename", "projection"]
    )
    write_csv(folder / table, columns, rows)


def write_flickr8k(folder: Path, photographs: int = 40) -> None:
    """Write Flickr8k in its official layout, with ratings of the test photographs' captions for the
    next three photographs.
    """
    names = [f"{100 + number}.jpg" for number in range(photographs)]
    for number, name in enumerate(names):
        write_picture(folder / "Flicker8k_Dataset" / name, number, mode="RGB")
    said = (
        "a dog runs",
        "two children play",
        "a man climbs",
        "snow on a hill",
        "people at a table",
    )
    captions = [
        f"{name}#{k}\t{said[(number + k) % 5]} in picture {number % 7} .\n"
        for number, name in enumerate(names)
        for k in range(5)
    ]
    (folder / "Flickr8k.token.txt").write_text("".join(captions))
    dev, held_out = photographs * 3 // 5, photographs * 3 // 4
    parts = {"train": names[:dev], "dev": names[dev:held_out], "test": names[held_out:]}
    for part, images in parts.items():
        (folder / f"Flickr_8k.{part}Images.txt").write_text("\n".join(images) + "\n")
    test = parts["test"]
    rated = []
    for place, name in enumerate(test):
        for step, k in itertools.product((1, 2, 3), range(5)):
            ratings = "\t".join(
                str(1 + sum(chosen) % 4) for chosen in itertools.combinations((place, step, k), 2)
            )
            rated.append(f"{name}\t{test[(place + step) % len(test)]}#{k}\t{ratings}\n")
    (folder / "ExpertAnnotations.txt").write_text("".join(rated))


def write_image_table(images: Path, table: Path, count: int = 80) -> None:
    """Write a user's images of two classes, four per patient, and a CSV file with their texts and
    labels.
    """
    rows = []
    for number in range(count):
        name, ill = f"{number % 4}/{number}.png", number % 2
        write_picture(images / name, number)
        said = "There is a <b>mass</b>, see A&B." if ill else "No mass. Nothing else."
        rows.append([name, said, f"patient {number // 4}", ill, "" if number % 5 else 1 - ill])
    write_csv(table, ["image", "text", "patient", "mass", "fracture"], rows)
