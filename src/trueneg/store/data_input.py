"""The inputs of the first jobs: which of the user's data a job reads, with which settings. No file
is opened here.

:mod:`trueneg.data.user_files` lists the files of an input and records them.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import (
    SPLITTING,
    benchmark_key,
    corpora,
    pairs_key,
    source_key,
    texts_key,
)

# omitted, so that a new setting reruns no job
DEFAULTS = {"seed": None, "skip_incomplete": False, "language": "en"}


class DataInput(NamedTuple):
    """The input of the first job of a chain.

    Attributes:
        place: path of the job's output in the results folder, without suffix.
        kind: ``images``, ``pairs``, ``texts``, ``reports`` or ``benchmark``.
        settings: ``source`` and the settings that the functions of the source need.
    """

    place: str
    kind: str
    settings: Mapping[str, Any]

    def record(self, results: Path) -> Path:
        """Return the path of the record that the job writes next to its output."""
        return results / f"{self.place}.files.json"


def of_images(dataset: Mapping[str, Any]) -> DataInput:
    """Return the images of a data set, given its settings."""
    settings = {key: dataset[key] for key in ("source", "path", "resolution", "download")}
    # so that no job is rerun
    settings |= {key: dataset[key] for key in ("unlabelled", "skip_incomplete") if dataset.get(key)}
    return DataInput(f"sources/{source_key(dataset)}", "images", settings)


def of_corpora(name: str, study: LikelihoodStudy) -> dict[str, DataInput]:
    """Return the reports of each corpus of a likelihood study."""
    inputs = {}
    for corpus, reports in corpora(study).items():
        settings = reports.model_dump(mode="json")
        for key, default in DEFAULTS.items():
            if settings.get(key, default) == default:
                settings.pop(key, None)
        inputs[corpus] = DataInput(f"{name}/text/{corpus}/reports", "reports", settings)
    return inputs


def of_joined_reports(dataset: Mapping[str, Any], studies: Mapping[str, Any]) -> DataInput:
    """Return the reports that are joined with the images of a data set."""
    inputs = of_corpora(dataset["text"], studies[dataset["text"]])
    return inputs[dataset["corpus"] or next(iter(inputs))]


def of_pairs(dataset: Mapping[str, Any], studies: Mapping[str, Any]) -> DataInput:
    """Return the images of an image–text data set and the table or archive that lists them."""
    reports = of_joined_reports(dataset, studies).settings
    joining = {key: value for key, value in dataset.items() if key not in ("validation", "test")}
    return DataInput(
        f"pairs/{pairs_key(dataset)}",
        "pairs",
        {**reports, **joining, "archive": reports.get("path")},
    )


def of_texts(dataset: Mapping[str, Any]) -> DataInput:
    """Return the texts of a data set of a text study."""
    reading = {key: value for key, value in dataset.items() if key not in SPLITTING}
    return DataInput(f"texts/{texts_key(dataset)}", "texts", reading)


def of_dataset(kind: str, dataset: Mapping[str, Any], studies: Mapping[str, Any]) -> DataInput:
    """Return the data set of a study of a kind that trains, given all studies."""
    if kind == "image-text":
        return of_pairs(dataset, studies)
    return of_texts(dataset) if kind == "text" else of_images(dataset)


def of_benchmark(lists: BaseModel, dataset: Mapping[str, Any]) -> DataInput:
    """Return CheXpert 8×200, whose images are made square like those of a data set."""
    settings = lists.model_dump() | {"resolution": dataset["resolution"]}
    # omit the default from names and records
    settings |= {"fit": "stretch"} if dataset.get("fit") == "stretch" else {}
    return DataInput(
        f"benchmarks/{benchmark_key(settings)}",
        "benchmark",
        {"source": "chexpert_8x200", **settings},
    )


def digest(value: Any) -> str:
    """Return 16 hexadecimal digits that change with the value."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


NO_IMAGES = digest({})
