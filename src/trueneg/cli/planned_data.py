"""The data of a study, as far as they are known before training; read by the code of the jobs."""

import functools
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from trueneg.cli.columns import UserTable, counts
from trueneg.config.runs import Run
from trueneg.data.arrays import size_of
from trueneg.data.doubtful_labels import doubtful_labels
from trueneg.data.draw import read_samples, refuse_group
from trueneg.data.image_files import OPENED
from trueneg.data.leakage import trained_ratings
from trueneg.data.near_duplicates import near_duplicates
from trueneg.data.pairs.pair_source import beside
from trueneg.data.run_inputs import data_checksum
from trueneg.data.table_formats import parsed_once, plain
from trueneg.data.user_files import compare_files, missing_files
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.kinds.trained import TrainedStudy
from trueneg.specs.sections import RunSettings, Section
from trueneg.specs.sources import OWN
from trueneg.specs.texts.text_table import column_names
from trueneg.store import data_input
from trueneg.store.data_input import DataInput
from trueneg.store.identity import identity
from trueneg.store.records import UserFilesRecord, read_json
from trueneg.store.run_store import RunStore

DECODED = 2_000  # folders of up to this many images are always decoded, as the job does


class PlannedData(NamedTuple):
    """The data shared by all runs of a study on one data set.

    Attributes:
        description: a line about them.
        changes: lines about the user's tables, and about files that changed or are missing.
        images: number of training samples; 0: not known yet.
        checksum: returns a run's data checksum; None: the images have not been decoded.
        source: the images and their labels or texts, without pixels if they have not been decoded;
            None: not known yet.
        subset: the first seed's subset of the source.
        sentences: all sentences, with repetitions; empty if they are not known yet.
        tables: the user's tables of texts, each with its columns of texts.
    """

    description: str
    changes: list[str]
    images: int = 0
    checksum: Callable[[RunSettings], str] | None = None
    source: Any = None
    subset: Any = None
    sentences: Sequence[str] = ()
    tables: Sequence[tuple[str, tuple[str, ...]]] = ()

    def samples(self, training: Section) -> int:
        """Return the number of samples per epoch: one per image or text, or one per study."""
        if training.get("unit") == "study" and self.source is not None:
            return len(set(self.source.reports[self.subset.train].tolist()))
        return self.images


PlannedRun: TypeAlias = tuple[Run, PlannedData]


@parsed_once()
def planned_data(
    study: TrainedStudy,
    studies: Mapping[str, Any],
    dataset: Section,
    seed: int,
    results: Path,
    every_image: bool,
) -> PlannedData:
    """Describe the samples of a data set: those that its first job read or would read.

    Raises:
        UserError: if the user's own data cannot be used, or what was read is damaged.
    """
    data = data_input.of_dataset(study, dataset, studies)
    inputs = [data]
    if dataset.get("text"):
        inputs.append(data_input.of_joined_reports(dataset, studies))
    path = results / f"{data.place}.npz"
    changes = _changes(results, path, inputs)
    is_current = path.is_file() and not changes
    shown = changes if path.is_file() else []
    if is_current:
        looked: Any = prepared_data(type(study), path)
    else:
        recorded = None if changes else _recorded(data, results)
        looked, missing = _first_look(study, data, results, every_image, recorded is not None)
        if looked is None:
            # the texts of pairs are listed by their own study
            lines = [*shown, *(missing if "path" in dataset else [])]
            return (recorded or PlannedData("not read yet", []))._replace(changes=lines)
    source, official = looked
    refuse_group(source, study.primary.group)
    subset = pkgutil.resolve_name(study.SPLITTER)(source, dataset, seed, official)
    remarks = [source.skipped, *doubtful_labels(source), subset.left_out, subset.leakage]
    remarks += [
        near_duplicates(source.samples, source.looks(), subset),
        trained_ratings(source.samples, subset),
    ]
    images: Any = getattr(source, "images", None)
    if is_opened := images is not None and not size_of(images):
        opened = f"{min(len(images), OPENED):,} of {len(images):,} images opened"
        remarks.insert(0, f"{opened} (--images decodes all)")
    summary = source.summary + _by_class(source, data) + (", to be read again" if shown else "")
    parts = [f"{source.name}, {summary}", subset.sizes, *filter(None, remarks)]
    # what the job writes, unless something is still to be joined
    is_whole = is_current or not (is_opened or dataset.get("text"))
    table = getattr(source, "sentences", None)
    is_split = is_current or not data.settings.get("split_sentences")
    return PlannedData(
        "; ".join(part.rstrip(".") for part in parts),
        [*shown, *_accounts(data.settings)],
        len(subset.train),
        functools.partial(data_checksum, source) if is_whole else None,
        source,
        subset,
        table["sentence"].tolist() if table is not None and is_split else [],
        tables_of(data.settings),
    )


def _by_class(source: Any, data: DataInput) -> str:
    """Return the number of the user's images of each class; empty for other data."""
    names = getattr(source, "class_names", ())
    if not names or data.settings["source"] not in OWN:
        return ""
    return f" ({counts(pd.Series(np.array(names)[source.labels]))})"


def tables_of(settings: Section) -> list[tuple[str, tuple[str, ...]]]:
    """Return the user's tables of texts that settings name, each with its columns of texts."""
    named = [settings.get("text_column"), settings.get("positive_column")]
    columns = (*filter(None, named), *settings.get("negative_columns", ()))
    keys = ["table"] if "table" in settings else ["path", "test_path"]
    return [(file, columns) for key in keys if columns and (file := settings.get(key))]


def _accounts(settings: Section) -> list[str]:
    """Account for the lines and columns of the user's tables, as ``trueneg init`` does; without
    their columns if they are restricted.
    """
    used = {
        plain(name)
        for key, value in settings.items()
        if "_column" in key
        for name in column_names(value)
    }
    lines = []
    for file, _ in tables_of(settings):
        if Path(file).expanduser().is_file():
            try:
                table = UserTable(Path(file), {})
            except UserError as error:  # in a column that the study does not read
                why = "" if settings["restricted"] else f": {error}"
                lines.append(f"{file}: its columns are not accounted for{why}")
                continue
            columns = f"; used: {table.columns(filter(used.__contains__, table.kinds))}"
            columns += f"; {table.unused(used)}"
            lines.append(f"{file}: {table.found[0]}{'' if settings['restricted'] else columns}")
    return lines


def _changes(results: Path, path: Path, inputs: Sequence[DataInput]) -> list[str]:
    """List the changes to the files of the inputs since they were read to a file, if they were."""
    if not (path.is_file() or inputs[0].record(results).is_file()):
        return []
    sentences = [line for each in inputs for line in compare_files(each, results).sentences]
    return list(dict.fromkeys(sentences))


def prepared_data(kind: type[TrainedStudy], path: Path) -> tuple[Any, pd.DataFrame | None]:
    """Read what the first job wrote: a source, and its official splits if they have a table."""
    splits = beside(path, "splits")
    official = privacy.read_table(splits)[0] if splits.is_file() else None
    return read_samples(kind, path), official


def _first_look(
    study: TrainedStudy, data: DataInput, results: Path, every_image: bool, is_recorded: bool
) -> tuple[Any, list[str]]:
    """Read a source as its first job does.

    Returns:
        The source and its official splits, or None if it cannot be read yet; and what is missing.

    Raises:
        UserError: if it cannot be used, unless it is published, or was read before, and is absent.
    """
    if missing := missing_files(data):
        return None, [f"MISSING {part}" for part in missing]
    place = Path(data.place)
    decoded = math.inf if every_image else DECODED
    try:
        first_look = pkgutil.resolve_name(study.FIRST_LOOK)
        return first_look(data.settings, results / place.parent / "cache" / place.name, decoded), []
    except UserError as error:
        path = data.settings.get("path")
        is_published = path is not None and data.settings["source"] not in OWN
        is_there = path is not None and Path(path).expanduser().exists()
        if is_there or not (is_published or is_recorded):
            raise
        return None, [f"MISSING {error}"]


def _recorded(data: DataInput, results: Path) -> PlannedData | None:
    """Describe data that are not on this machine, from their record; None if they were never
    read.
    """
    if not data.record(results).is_file():
        return None
    checksum = read_json(data.record(results), UserFilesRecord)["data"]
    runs = [
        run
        for run in RunStore(results / "runs").records().values()
        if run["source"]["checksum"] == checksum
    ]
    checksums = {repr(identity(run["settings"])): run["data"] for run in runs}
    images = max((run["images"] for run in runs), default=0)
    description = (
        f"{data.settings['source']}: not on this machine; recorded checksum {checksum[:6]}…,"
        f" training at most {images:,} images"
    )
    return PlannedData(
        description,
        [],
        images,
        lambda settings: checksums.get(repr(identity(settings)), checksum),
    )
