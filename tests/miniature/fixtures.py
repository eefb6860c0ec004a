"""Tiny generated data and models in the official layouts, at the paths in the miniature
sections.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests import biovil
from tests.clips import tiny_clip, write_clip
from tests.data import official_layouts as layouts
from tests.data.image_layouts import STL10_PIXELS, write_cifar10, write_stl10
from tests.text import models
from trueneg.data.images.sources import stl10
from trueneg.models.weights import convert

Writer = Callable[[Path, Mapping[str, Any]], None]
PATIENTS = 60  # of MIMIC-CXR
OPEN_I_REPORTS = range(1, 121)  # their numbers; each has one image
TOPICS = range(8)  # labels of texts; as many as a miniature of a text study has
OPEN_I = {  # heading of the experts' codes, and the text of its reports
    "normal": "The heart is normal in size. The lungs are clear.",
    "Cardiomegaly": "There is mild cardiomegaly. No pneumothorax.",
    "Pulmonary Edema": "Pulmonary edema is seen. No focal consolidation.",
    "Pleural Effusion": "Small left pleural effusion. The bones look well.",
    "Pneumonia": "Right lower lobe pneumonia. No pleural effusion.",
    "Pneumothorax": "Large right pneumothorax. The heart is normal in size.",
}


def write_fixtures(root: Path, section: Mapping[str, Any]) -> None:
    """Write the missing files that a section reads.

    Args:
        root: folder that the section's paths are relative to.
        section: the miniature section.

    Raises:
        LookupError: if a source has no fixture.
    """
    for key, writers in (("dataset", DATASETS), ("reports", REPORTS)):
        settings = section.get(key)
        if settings is None:
            continue
        source = settings["source"]
        if source not in writers:
            raise LookupError(
                f"{key}.source is {source!r}, which has no fixture; tests/miniature/fixtures.py has"
                f" {', '.join(writers)}. Add a writer for its layout."
            )
        writers[source](root, settings)
    if "protocol" in section:
        _commit_protocol(root / section["protocol"])
    for objective in section.get("objectives", {}).values():
        released = objective.get("encoder", {}), objective.get("text_encoder", {})
        if released[0].get("name") == "biovil":
            _biovil(root / released[0]["weights"], root / released[1]["projection"])
    benchmark = section.get("evaluation", {}).get("chexpert_8x200")
    if benchmark is not None and not (root / benchmark["path"]).exists():
        lists = layouts.chexpert_8x200()
        layouts.write_convirt_lists(root / benchmark["lists"], lists)
        layouts.write_chexpert_pictures(
            root / benchmark["path"], [*lists.candidates, *lists.images]
        )


def write_models(folder: Path) -> None:
    """Write a language model and a CLIP in place of those of the hub; seven layers, so that six can
    be frozen.
    """
    tokenizer = models.tokenizer()
    tokenizer.save_pretrained(folder / "bert")
    models.bert(len(tokenizer), layers=7).save_pretrained(folder / "bert")
    write_clip(folder, tiny_clip(image_size=32))


def _commit_protocol(path: Path) -> None:
    if not path.exists():
        # studies with other protocols may share the project
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("The comparisons of this study.\n")
        author = ["-c", "user.name=tester", "-c", "user.email=tester@example.org"]
        for command in (
            ["init"],
            ["add", path.name],
            [*author, "commit", "--message", "The protocol"],
        ):
            subprocess.run(["git", "-C", path.parent, *command], check=True, capture_output=True)


def _biovil(image: Path, text: Path) -> None:
    if not image.exists():
        image.parent.mkdir(parents=True)
        pickles = biovil.write_pickles(image.parent, models.bert(len(models.tokenizer()), layers=7))
        convert(pickles["image"], image)
        convert(pickles["text"], text)


def _nothing(root: Path, settings: Mapping[str, Any]) -> None:
    """Nothing to write: the source is generated, comes with a package, or is written with the
    reports.
    """


def _shades(labels: np.ndarray, size: int) -> np.ndarray:
    """Return noisy pixels whose brightness encodes the class, uint8 (n, size)."""
    noise = np.random.default_rng(0).integers(0, 56, (len(labels), size), np.uint8)
    noise += 20 * labels.astype(np.uint8)[:, None]
    return noise


def _cifar10(root: Path, settings: Mapping[str, Any]) -> None:
    if not (root / settings["path"]).exists():
        labels = np.arange(60_000) % 10
        write_cifar10(
            root / settings["path"],
            np.column_stack([labels.astype(np.uint8), _shades(labels, 3072)]),
        )


def _stl10(root: Path, settings: Mapping[str, Any]) -> None:
    folder = root / settings["path"]
    if not folder.exists():
        write_stl10(folder)
        for split, count in stl10.ARCHIVE.rows.items():
            _shades(np.arange(count) % 10, STL10_PIXELS).tofile(folder / f"{split}_X.bin")
        with (folder / "unlabeled_X.bin").open("r+b") as stream:  # the others stay black
            stream.write(
                _shades(np.arange(settings.get("unlabelled", 0)) % 10, STL10_PIXELS).tobytes()
            )


def _open_i_reports(root: Path, settings: Mapping[str, Any]) -> None:
    said = [(text, "", [heading]) for heading, text in OPEN_I.items()]
    reports = {
        number: (*said[number % len(said)], [f"CXR{number}_IM-0001-1001"])
        for number in OPEN_I_REPORTS
    }
    layouts.write_open_i_reports(root / settings["path"], reports)


def _open_i_images(root: Path, settings: Mapping[str, Any]) -> None:
    files = {f"{number}_IM-0001-1001": (number, "Frontal") for number in OPEN_I_REPORTS}
    layouts.write_open_i_images(root / settings["path"], files)


def _mimic_cxr_reports(root: Path, settings: Mapping[str, Any]) -> None:
    layouts.write_mimic_reports(root / settings["path"], layouts.mimic_cxr(PATIENTS))


def _mimic_cxr_images(root: Path, settings: Mapping[str, Any]) -> None:
    radiographs = layouts.write_mimic_cxr(root / settings["path"], PATIENTS)
    if settings.get("ms_cxr") is not None:
        layouts.write_ms_cxr(root / settings["ms_cxr"], layouts.ms_cxr(radiographs))


def _flickr8k(root: Path, settings: Mapping[str, Any]) -> None:
    layouts.write_flickr8k(root / settings["path"], photographs=80)


def _flickr30k(root: Path, settings: Mapping[str, Any]) -> None:
    layouts.write_flickr30k(root / settings["path"], photographs=60)


def _image_table(root: Path, settings: Mapping[str, Any]) -> None:
    layouts.write_image_table(root / settings["path"], root / settings["table"])


def _questions(label: int, count: int, *, held_out: bool = False) -> list[str]:
    """Return different texts with a label, none of which are among those held out."""
    return [f"{'Please: ' * held_out}question {number} of topic {label}" for number in range(count)]


def _text_table(root: Path, settings: Mapping[str, Any]) -> None:
    """Write questions on topics in the columns that the settings name: answers are positives, and
    the answers to the questions before and after are hard negatives.
    """
    rows = [
        (text, f"topic {label}", split)
        for label in TOPICS
        for split, count in (("train", 12), ("test", 4))
        for text in _questions(label, count, held_out=split == "test")
    ]
    table = pd.DataFrame(rows, columns=["text", "topic", "split"])
    answers = "Answer to " + table["text"]
    around = zip(answers.shift(1, fill_value="-"), answers.shift(-1, fill_value="-"), strict=True)
    columns = {
        settings.get("text_column", "text"): table["text"],
        settings["label_column"]: table["topic"],
        settings.get("positive_column"): answers,
        settings.get("group_column"): table["text"],
        settings.get("split_column"): table["split"],
        **dict.fromkeys(settings.get("negative_columns", ()), pd.Series(map(json.dumps, around))),
    }
    written = pd.DataFrame({name: cells for name, cells in columns.items() if name is not None})
    is_test = (table["split"] == "test") & ("test_path" in settings)
    parts = {"path": written[~is_test], "test_path": written[is_test]}
    for key, part in parts.items():
        if key not in settings:
            continue
        path = root / settings[key]
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jsonl":
            part.to_json(path, orient="records", lines=True)
        else:
            part.to_csv(path, index=False)


def _clinc150(root: Path, settings: Mapping[str, Any]) -> None:
    sizes = {"train": (0, 12), "val": (12, 16), "test": (16, 20)}
    texts = {
        part: [
            [text, f"topic_{label}"]
            for label in TOPICS
            for text in _questions(label, 20)[slice(*size)]
        ]
        for part, size in sizes.items()
    }
    path = root / settings["path"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(
            texts | {f"oos_{part}": [[f"Nothing of the kind, {part}", "oos"]] for part in sizes}
        )
    )


DATASETS: dict[str, Writer] = {
    "digits": _nothing,
    "cifar10": _cifar10,
    "stl10": _stl10,
    "phantom": _nothing,
    "open_i": _open_i_images,
    "mimic_cxr": _mimic_cxr_images,
    "flickr8k": _nothing,
    "flickr30k": _nothing,
    "image_table": _nothing,
    "text_table": _text_table,
    "clinc150": _clinc150,
}
REPORTS: dict[str, Writer] = {
    "phantom": _nothing,
    "open_i": _open_i_reports,
    "mimic_cxr": _mimic_cxr_reports,
    "flickr8k": _flickr8k,
    "flickr30k": _flickr30k,
    "image_table": _image_table,
}
