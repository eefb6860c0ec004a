"""The data of a study, as far as they are known before training; read by the code of the jobs."""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd

from trueneg.cli.columns import UserTable, counts
from trueneg.config.runs import Run, RunSettings
from trueneg.data.image_cache import LONGEST
from trueneg.data.image_files import EncodedImages, check_images, file_contents
from trueneg.data.images.image_source import data_checksum, read_source
from trueneg.data.images.loading import load_source
from trueneg.data.images.subsets import TEST_FRACTION, image_subset
from trueneg.data.near_duplicates import near_duplicates
from trueneg.data.pairs import chexpert_8x200, image_table
from trueneg.data.pairs.inputs import data_checksum as data_checksum_of_pairs
from trueneg.data.pairs.mimic_cxr import missing_reports
from trueneg.data.pairs.pair_source import PairSource, beside, read_pairs
from trueneg.data.pairs.pair_splits import pair_subset
from trueneg.data.pairs.registry import source_module
from trueneg.data.table_formats import plain
from trueneg.data.texts.text_source import read_texts
from trueneg.data.texts.text_splits import text_subset
from trueneg.data.user_files import check_own_table, compare_files
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.kinds.images import ImageStudy
from trueneg.specs.kinds.likelihood import LikelihoodStudy
from trueneg.specs.kinds.pairs import ImageTextStudy
from trueneg.specs.kinds.texts import TextStudy
from trueneg.specs.sections import Section
from trueneg.specs.sources import OWN, data_name
from trueneg.store import data_input
from trueneg.store.data_input import DataInput
from trueneg.store.identity import identity
from trueneg.store.records import UserFilesRecord, read_json
from trueneg.store.run_store import RunStore

OPENED = 20_000  # images opened, unless all are to be decoded
DECODED = 2_000  # folders of up to this many images are always decoded, as the job does


class PlannedData(NamedTuple):
    """The data shared by all runs of a study on one data set.

    Attributes:
        description: a line about them.
        changes: lines about the user's tables, and about files that changed or are missing.
        images: number of training images; 0: not known yet.
        units: number of pairs per epoch, by ``training.unit``; empty for images without texts.
        checksum: returns a run's data checksum; None: the images have not been decoded.
        source: the images and their labels or texts, without pixels if they have not been decoded;
            None: not known yet.
        subset: the first seed's subset of the source.
        sentences: training sentences, with repetitions; empty if they are not known yet.
        tables: the user's tables of texts, each with its columns of texts.
    """

    description: str
    changes: list[str]
    images: int = 0
    units: Mapping[str, int] = {}
    checksum: Callable[[RunSettings], str] | None = None
    source: Any = None
    subset: Any = None
    sentences: Sequence[str] = ()
    tables: Sequence[tuple[str, tuple[str, ...]]] = ()

    def samples(self, training: Mapping[str, Any]) -> int:
        """Return the number of samples per epoch: images, or pairs of images and sentences."""
        return self.units.get(training.get("unit", ""), self.images)


PlannedRun: TypeAlias = tuple[Run, PlannedData]


def planned_images(
    studies: Any, dataset: Mapping[str, Any], seed: int, results: Path, every_image: bool
) -> PlannedData:
    """Describe the images of a data set, and check them if they have not been read yet.

    Raises:
        UserError: if the user's own images cannot be used, or the decoded images are damaged.
    """
    images = data_input.of_dataset(ImageStudy, dataset, studies)
    decoded = results / f"{images.place}.npz"
    changes = _changes(results, images) if decoded.is_file() else []
    is_current = decoded.is_file() and not changes
    checked = ""
    try:
        listed = None
        if dataset["source"] in OWN and not is_current and not every_image:
            listed = importlib.import_module(
                f"trueneg.data.images.sources.{dataset['source']}"
            ).listed(dataset["path"])
        if (
            listed is not None
            and len(listed.images) > DECODED
            and dataset["resolution"] is not None
        ):
            # imports pillow, which takes time
            from trueneg.data.images.pixels import undecoded_source

            checked, usable = opened(listed.images, images.settings, every_image)
            name = data_name(dataset["source"], dataset["path"])
            source = undecoded_source(name, listed.part(usable))
        else:
            source = read_source(decoded) if is_current else load_source(**images.settings)
    except UserError as error:
        if not is_current and (recorded := _recorded(images, results)) is not None:
            return recorded._replace(changes=[str(error)])
        if (
            is_current
            or dataset["source"] in OWN
            or Path(dataset["path"] or "").expanduser().exists()
        ):
            raise
        return PlannedData("not read yet", [f"MISSING {error}"])  # a published data set
    subset = image_subset(source, dataset, seed)
    unlabelled = int((source.labels[subset.train] < 0).sum())
    held_out = (
        ""
        if source.is_test.any()
        else f" (no test images: dataset.test = {dataset['test'] or TEST_FRACTION:g} held out)"
    )
    own = " (the data's own; dataset.validation is not used)" if source.is_validation.any() else ""
    description = (
        f"{source.name}{'' if checked else f', {source.images.shape[-1]} px'}"
        f"{f' ({counts(_classes(source))})' if dataset['source'] in OWN else ''}; training"
        f" {len(subset.train) - unlabelled:,} of "
        f"{len(subset.pool):,}"
        f" images{f' and {unlabelled:,} unlabelled ones' if unlabelled else ''}, validation "
        f"{len(subset.validation):,}{own}, test"
        f" {len(subset.test):,}{held_out}{f'; {checked}' if checked else ''}"
        f"{_remarks(source.skipped, subset.leakage, _near(source, subset))}"
    )
    checksum = None if checked else functools.partial(data_checksum, source)
    return PlannedData(description, changes, len(subset.train), {}, checksum, source, subset)


def planned_pairs(
    studies: Mapping[str, Any],
    dataset: Mapping[str, Any],
    seed: int,
    results: Path,
    every_image: bool,
) -> PlannedData:
    """Describe the images and sentences of a data set, and check the user's own table and images if
    not yet joined.

    Raises:
        UserError: if the user's own table or images cannot be used, or joined pairs are damaged.
    """
    reports = data_input.of_joined_reports(dataset, studies)
    images = data_input.of_dataset(ImageTextStudy, dataset, studies)
    path = results / f"{images.place}.npz"
    changes = _changes(results, reports, images)
    if not path.is_file() and not changes and (recorded := _recorded(images, results)) is not None:
        absent = (
            source_module(dataset["source"]).missing_files(dataset) if "path" in dataset else []
        )
        return recorded._replace(changes=[f"MISSING {part}" for part in absent])
    if path.is_file() and not changes:
        again: list[str] = []
        source = read_pairs(path)
        splits = privacy.read_table(beside(path, "splits"))[0]
        checksum: Any = functools.partial(data_checksum_of_pairs, source)
        description = (
            f"{source.name}, {len(source.images):,} images of {source.size[0]} px,"
            f" {len(source.sentences):,} sentences"
        )
        checked = source.skipped
    else:
        check_own_table(images)
        again = changes if path.is_file() else []
        checksum = None
        description = (
            f"images and sentences will be created{' again' if again else ''} from the reports of"
            f" {dataset['text']}"
        )
        if dataset["source"] != "image_table" or image_table.missing_files(images.settings):
            return PlannedData(description, again)
        source, splits, checked = _unjoined(images.settings, every_image)
        description += f": {len(source.images):,} images with {len(source.sentences):,} texts"
    subset = pair_subset(source, dataset, seed, splits)
    trained = set(source.reports[subset.train].tolist())
    training = source.sentences.loc[source.sentences["report"].isin(trained), "sentence"].tolist()
    known = () if checksum is None and images.settings["split_sentences"] else training
    remarks = _remarks(checked, subset.leakage, _near(source, subset))
    description += f"; training {len(subset.train):,} images{remarks}"
    units = {"image": len(subset.train), "study": len(trained)}
    return PlannedData(
        description,
        [*again, *_accounts(images.settings)],
        len(subset.train),
        units,
        checksum,
        source,
        subset,
        known,
        tables_of(images.settings),
    )


def _unjoined(
    settings: Mapping[str, Any], every_image: bool
) -> tuple[PairSource, pd.DataFrame, str]:
    """Read the user's own table, and open its images.

    Returns:
        The pairs, without pixels; the user's own splits; and a sentence about how many images were
            opened and skipped.
    """
    texts = image_table.read_texts(settings)
    read: Any = image_table.read_images(settings, {"sentences": texts}, threads=1)
    checked, usable = opened(read.images, settings, every_image, LONGEST)
    reports = read.reports[usable]
    sentences = (
        texts[texts["report"].isin(reports)]
        .rename(columns={"text": "sentence"})
        .assign(**{"class": -1})
    )
    sentences["index"] = sentences.groupby("report").cumcount()
    nothing = np.zeros((len(usable), 0))
    labels = nothing.astype(np.float32), (), nothing.astype(bool)
    digests = file_contents(read.images.part(usable), every_image)
    pixels = np.repeat(digests, len(read.mode), axis=1)
    patients = read.patients[usable]
    source = PairSource("image_table", pixels, reports, patients, sentences, *labels)
    return source, read.tables.get("splits", pd.DataFrame()), checked


def planned_texts(
    studies: Mapping[str, Any],
    dataset: Mapping[str, Any],
    seed: int,
    results: Path,
    every_image: bool,
) -> PlannedData:
    """Describe the texts of a data set, and read them if they have not been read yet.

    Raises:
        UserError: if the texts cannot be used.
    """
    texts = data_input.of_dataset(TextStudy, dataset, studies)
    reader = importlib.import_module(f"trueneg.data.texts.{dataset['source']}")
    inputs = [texts, *([data_input.of_joined_reports(dataset, studies)] if dataset["text"] else [])]
    path = results / f"{texts.place}.npz"
    changes = _changes(results, *inputs)
    is_current = path.is_file() and not changes
    again = changes if path.is_file() else []
    if is_current:
        source = read_texts(path)
    elif missing := [f"MISSING {part}" for part in reader.missing_files(texts.settings)]:
        recorded = _recorded(texts, results)
        return (
            recorded._replace(changes=missing) if recorded else PlannedData("not read yet", missing)
        )
    else:
        source = reader.read_source(texts.settings)
    # what the job writes, unless class probabilities are still to be joined
    checksum = (
        functools.partial(data_checksum_of_pairs, source)
        if is_current or not dataset["text"]
        else None
    )
    subset = text_subset(source, dataset, seed)
    listed = source.sentences["sentence"].tolist()
    labels = f" with {len(source.label_names)} labels" if source.label_names else ""
    held = len(subset.validation_unseen)
    results_on = len(subset.test_unseen)
    known = len(subset.validation_unseen_bank) + len(subset.test_unseen_bank)
    roles = (
        f"{held:,} for selection, {results_on:,} for results, {known:,} others as their neighbours"
    )
    unseen = f"; of labels that are never trained on: {roles}" if held or results_on else ""
    description = (
        f"{source.name}, {len(listed):,} texts{labels}; training {len(subset.train):,}, validation"
        f" {len(subset.validation):,}, test {len(subset.test):,}{unseen}"
    )
    description += _remarks(source.skipped, subset.left_out, subset.leakage, _near(source, subset))
    return PlannedData(
        description,
        [*again, *_accounts(texts.settings)],
        len(subset.train),
        {},
        checksum,
        source,
        subset,
        listed,
        tables_of(texts.settings),
    )


def tables_of(settings: Section) -> list[tuple[str, tuple[str, ...]]]:
    """Return the user's tables of texts that settings name, each with its columns of texts."""
    named = [settings.get("text_column"), settings.get("positive_column")]
    columns = (*filter(None, named), *settings.get("negative_columns", ()))
    keys = ["table"] if "table" in settings else ["path", "test_path"]
    return [(file, columns) for key in keys if columns and (file := settings.get(key))]


def _classes(source: Any) -> pd.Series:
    return pd.Series(np.array(source.class_names)[source.labels])


def _near(source: Any, subset: Any) -> str:
    return near_duplicates(source.samples, source.looks(), subset)


def _remarks(*sentences: str) -> str:
    return "".join(f"; {sentence.rstrip('.')}" for sentence in sentences if sentence)


def _accounts(settings: Section) -> list[str]:
    """Account for the lines and columns of the user's tables, as ``trueneg init`` does; without
    their columns if they are restricted.
    """
    used = {
        plain(name)
        for key, value in settings.items()
        if "_column" in key
        for name in np.ravel(value or [])
    }
    lines = []
    for file, _ in tables_of(settings):
        if Path(file).expanduser().is_file():
            table = UserTable(Path(file), {})
            columns = f"; used: {table.columns(filter(used.__contains__, table.kinds))}"
            columns += f"; {table.unused(used)}"
            lines.append(f"{file}: {table.found[0]}{'' if settings['restricted'] else columns}")
    return lines


def _changes(results: Path, *inputs: DataInput) -> list[str]:
    """List the changes to the files of the inputs since they were read."""
    sentences = [line for data in inputs for line in compare_files(data, results).sentences]
    return list(dict.fromkeys(sentences))


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
        {},
        lambda settings: checksums.get(repr(identity(settings)), checksum),
    )


def opened(
    images: EncodedImages, settings: Mapping[str, Any], every_image: bool, longest: float = np.inf
) -> tuple[str, list[int]]:
    """Open the first images, or decode all of them.

    Returns:
        A sentence about how many were opened and skipped; and the positions of the images that will
            be used.

    Raises:
        UserError: if images cannot be used and `skip_incomplete` in the settings does not allow
            leaving them out.
    """
    first = images if every_image else images.part(slice(OPENED))
    how: dict[str, Any] = {"decode": every_image, "longest": longest}
    usable, skipped = check_images(
        first, settings["path"], settings.get("skip_incomplete", False), **how
    )
    treated = "decoded" if every_image else "opened (--images decodes all)"
    sentence = (
        f"{len(first):,} of {len(images):,} images {treated}{f'; {skipped}' if skipped else ''}"
    )
    return sentence, [*usable, *range(len(first), len(images))]


def missing_texts(study: LikelihoodStudy) -> list[str]:
    """List missing report files and where to get them."""
    settings = study.reports.model_dump()
    source = study.reports.source
    if study.reports.captions:
        return source_module(source).missing_files(settings)
    return missing_reports(settings) if source == "mimic_cxr" else []


def missing_images(study: ImageTextStudy) -> list[str]:
    """List missing image files and where to get them; some sources keep images and captions in the
    same folder.
    """
    settings = study.dataset.model_dump()
    lists = study.evaluation.chexpert_8x200
    missing = (
        source_module(settings["source"]).missing_files(settings) if "path" in settings else []
    )
    return missing + (chexpert_8x200.missing_files(lists.model_dump()) if lists is not None else [])
