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

from trueneg.config.runs import benchmark_key, corpora
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sections import Section

# omitted, so that a new setting reruns no job
DEFAULTS = {
    "seed": None,
    "skip_incomplete": False,
    "language": "en",
    "split_column": None,
    "group_column": None,
}


class DataInput(NamedTuple):
    """The input of the first job of a chain.

    Attributes:
        place: path of the job's output in the results folder, without suffix.
        kind: ``images``, ``pairs``, ``texts``, ``reports`` or ``benchmark``.
        settings: ``source`` and the settings that the functions of the source need.
    """

    place: str
    kind: str
    settings: Section

    def record(self, results: Path) -> Path:
        """Return the path of the record that the job writes next to its output."""
        return results / f"{self.place}.files.json"


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


def of_joined_reports(dataset: Section, studies: Mapping[str, Any]) -> DataInput:
    """Return the reports that are joined with the images of a data set."""
    inputs = of_corpora(dataset["text"], studies[dataset["text"]])
    return inputs[dataset["corpus"] or next(iter(inputs))]


def of_dataset(
    kind: TrainedStudy | type[TrainedStudy],
    dataset: Section,
    studies: Mapping[str, Any],
) -> DataInput:
    """Return the data set of a study of a kind that trains, given all studies."""
    settings = kind.reading(dataset)
    if kind.joins_reports:
        reports = of_joined_reports(dataset, studies).settings
        settings = {**reports, **settings, "archive": reports.get("path")}
    return DataInput(kind.data_place(dataset), kind.SAMPLES, settings)


def of_benchmark(lists: BaseModel, dataset: Section) -> DataInput:
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
