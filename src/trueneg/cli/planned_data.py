"""The data of a study, as far as they are known before training; read by the code of the jobs."""

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from trueneg.config.image_text_study import ImageTextStudy
from trueneg.config.likelihood_study import LikelihoodStudy
from trueneg.config.runs import RunSettings, pairs_key
from trueneg.data import false_negatives
from trueneg.data.decoding import open_image
from trueneg.data.image_cache import LONGEST
from trueneg.data.image_files import EncodedImages, check_images
from trueneg.data.images.image_source import ImageSource, data_checksum, read_source
from trueneg.data.images.loading import drawing_settings, load_source
from trueneg.data.images.pixels import is_grey
from trueneg.data.images.subsets import TEST_FRACTION, make_subset
from trueneg.data.pairs import chexpert_8x200
from trueneg.data.pairs.mimic_cxr import missing_reports
from trueneg.data.pairs.pair_source import PairSource, beside, read_pairs
from trueneg.data.pairs.pair_splits import pair_subset
from trueneg.data.pairs.registry import source_module
from trueneg.data.user_files import check_own_table, compare_files
from trueneg.errors import UserError
from trueneg.io import privacy
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
        changes: lines about files that changed or are missing.
        images: number of training images; 0: not known yet.
        units: number of pairs per epoch, by ``training.unit``; empty for images without texts.
        checksum: returns a run's data checksum; None: not known yet.
        shape: channels, height and width of the images; None: not known yet.
        sentences: training sentences, with repetitions; empty if they are not known yet.
        facts: returns what is known about a run's false negatives; None: not known yet.
    """

    description: str
    changes: list[str]
    images: int = 0
    units: Mapping[str, int] = {}
    checksum: Callable[[RunSettings], str] | None = None
    shape: tuple[int, ...] | None = None
    sentences: Sequence[str] = ()
    facts: Callable[[RunSettings], false_negatives.Facts] | None = None

    def samples(self, training: Mapping[str, Any]) -> int:
        """Return the number of samples per epoch: images, or pairs of images and sentences."""
        return self.units.get(training.get("unit", ""), self.images)


def planned_images(dataset: Mapping[str, Any], seed: int, results: Path, every_image: bool) -> PlannedData:
    """Describe the images of a data set, and check them if they have not been read yet.

    Raises:
        UserError: if the user's own images cannot be used, or the decoded images are damaged.
    """
    images = data_input.of_images(dataset)
    decoded = results / f"{images.place}.npz"
    changes = compare_files(images, results).sentences if decoded.is_file() else []
    is_current, checked, shape = decoded.is_file() and not changes, "", None
    try:
        listed = None
        if dataset["source"] in OWN and not is_current and not every_image:
            listed = importlib.import_module(f"trueneg.data.images.sources.{dataset['source']}").listed(dataset["path"])
        if listed is not None and len(listed.images) > DECODED:
            checked = f"; {opened(listed.images, images.settings, every_image)}"
            first = listed.images.part(slice(OPENED))
            size = open_image(next(first.read())).size[::-1] if dataset["resolution"] is None else [dataset["resolution"]] * 2
            shape = (1 if all(map(is_grey, first.read())) else 3, *size)
            arrays = listed._replace(images=np.zeros((len(listed.images), 1, 0, 0), np.uint8))._asdict()
            source = ImageSource(data_name(dataset["source"], dataset["path"]), **arrays)
        else:
            source = read_source(decoded) if is_current else load_source(**images.settings)
    except UserError as error:
        if not is_current and (recorded := _recorded(images, results)) is not None:
            return recorded._replace(changes=[str(error)])
        if is_current or dataset["source"] in OWN or Path(dataset["path"] or "").expanduser().exists():
            raise
        return PlannedData("not read yet", [f"MISSING {error}"])  # a published data set
    subset = make_subset(source, seed=seed, **drawing_settings(source, dataset))
    unlabelled = int((source.labels[subset.train] < 0).sum())
    held_out = "" if source.is_test.any() else f" (no test images: dataset.test = {dataset['test'] or TEST_FRACTION:g} held out)"
    own = " (the data's own; dataset.validation is not used)" if source.is_validation.any() else ""
    description = (
        f"{source.name}, {(shape or source.images.shape)[-1]} px; training {len(subset.train) - unlabelled:,} of "
        f"{len(subset.pool):,} images{f' and {unlabelled:,} unlabelled ones' if unlabelled else ''}, validation "
        f"{len(subset.validation):,}{own}, test {len(subset.test):,}{held_out}{checked}"
        f"{f'; {source.skipped}' if source.skipped else ''}"
    )
    checksum = None if shape else functools.partial(data_checksum, source)
    facts = functools.partial(false_negatives.of_views, source, subset)
    return PlannedData(description, changes, len(subset.train), {}, checksum, shape or source.images.shape[1:], facts=facts)


def planned_pairs(
    studies: Mapping[str, Any], dataset: Mapping[str, Any], seed: int, results: Path, every_image: bool
) -> PlannedData:
    """Describe the images and sentences of a data set, and check the user's own table and images if they were not joined yet.

    Raises:
        UserError: if the user's own table or images cannot be used, or joined pairs are damaged.
    """
    path = results / "pairs" / f"{pairs_key(dataset)}.npz"
    reports, images = data_input.of_joined_reports(dataset, studies), data_input.of_pairs(dataset, studies)
    changes = dict.fromkeys(change for data in (reports, images) for change in compare_files(data, results).sentences)
    if not path.is_file() and not changes and (recorded := _recorded(images, results)) is not None:
        absent = source_module(dataset["source"]).missing_files(dataset) if "path" in dataset else []
        return recorded._replace(changes=[f"MISSING {part}" for part in absent])
    if path.is_file() and not changes:
        return _joined(path, dataset, seed)
    check_own_table(images)
    again = list(changes) if path.is_file() else []
    description = f"images and sentences will be created{' again' if again else ''} from the reports of {dataset['text']}"
    if dataset["source"] != "image_table" or source_module("image_table").missing_files(images.settings):
        return PlannedData(description, again)
    texts = source_module("image_table").read_texts(images.settings)
    read = source_module("image_table").read_images(images.settings, {"sentences": texts}, threads=1)
    checked = opened(read.images, images.settings, every_image, LONGEST)
    no_pixels = np.zeros((len(read.reports), len(read.mode), 0, 0), np.uint8)
    sentences = texts[texts["report"].isin(read.reports)].rename(columns={"text": "sentence"})
    source = bare_pairs(no_pixels, read.reports, read.patients, sentences)
    planned = _of_pairs(source, pd.DataFrame(), dataset, seed)
    description += f": {len(no_pixels):,} images with {len(sentences):,} texts, training {planned.images:,} images; {checked}"
    usable = () if images.settings["split_sentences"] else planned.sentences
    return planned._replace(description=description, changes=again, sentences=usable)


def bare_pairs(images: np.ndarray, reports: np.ndarray, patients: np.ndarray, sentences: pd.DataFrame) -> PairSource:
    """Return images and sentences without labels and classes."""
    nothing, index = np.zeros((len(images), 0)), sentences.groupby("report").cumcount()
    sentences = sentences.assign(index=index, **{"class": -1})
    labels = nothing.astype(np.float32), (), nothing.astype(bool)
    return PairSource("image_table", images, reports, patients, sentences, *labels)


def _joined(path: Path, dataset: Mapping[str, Any], seed: int) -> PlannedData:
    """Describe a file of images and sentences."""
    from trueneg.training.image_text_objectives import data_checksum as checksum_of_pairs

    pairs = read_pairs(path)
    planned = _of_pairs(pairs, privacy.read_table(beside(path, "splits"))[0], dataset, seed)
    description = f"{pairs.name}, {len(pairs.images):,} images of {pairs.size[0]} px, {len(pairs.sentences):,} sentences"
    description += f"; training {planned.images:,} images{f'; {pairs.skipped}' if pairs.skipped else ''}"
    return planned._replace(description=description, checksum=functools.partial(checksum_of_pairs, pairs))


def _of_pairs(source: PairSource, splits: pd.DataFrame, dataset: Mapping[str, Any], seed: int) -> PlannedData:
    """Count the training images of a seed, whose images may have no pixels yet."""
    subset = pair_subset(source, splits, dataset, seed)
    train, facts = subset.train, functools.partial(false_negatives.of_pairs, source, subset)
    reports = set(source.reports[train].tolist())
    texts = source.sentences.loc[source.sentences["report"].isin(reports), "sentence"]
    shape = (source.images.shape[1], dataset["resolution"], dataset["resolution"])
    return PlannedData("", [], len(train), {"image": len(train), "study": len(reports)}, None, shape, texts.tolist(), facts)


def _recorded(data: DataInput, results: Path) -> PlannedData | None:
    """Describe data that are not on this machine, from their record; None if they were never read."""
    if not data.record(results).is_file():
        return None
    checksum = read_json(data.record(results), UserFilesRecord)["data"]
    runs = [run for run in RunStore(results / "runs").records().values() if run["source"]["checksum"] == checksum]
    checksums = {repr(identity(run["settings"])): run.get("data", checksum) for run in runs}
    images = max((run["images"] for run in runs), default=0)
    description = (
        f"{data.settings['source']}: not on this machine; recorded checksum {checksum[:6]}…, training at most {images:,} images"
    )
    return PlannedData(description, [], images, {}, lambda settings: checksums.get(repr(identity(settings)), checksum))


def opened(images: EncodedImages, settings: Mapping[str, Any], every_image: bool, longest: float = np.inf) -> str:
    """Open the first images, or decode all of them; return a sentence about how many were opened, and which will be skipped.

    Raises:
        UserError: if images cannot be used and `skip_incomplete` in the settings does not allow leaving them out.
    """
    first = images if every_image else images.part(slice(OPENED))
    how: dict[str, Any] = {"decode": every_image, "longest": longest}
    _, skipped = check_images(first, settings["path"], settings.get("skip_incomplete", False), **how)
    treated = "decoded" if every_image else "opened (--images decodes all)"
    return f"{len(first):,} of {len(images):,} images {treated}{f'; {skipped}' if skipped else ''}"


def missing_texts(study: LikelihoodStudy) -> list[str]:
    """List missing report files and where to get them."""
    settings, source = study.reports.model_dump(), study.reports.source
    if study.reports.captions:
        return source_module(source).missing_files(settings)
    if source == "mimic_cxr":
        return missing_reports(settings)
    is_absent = source == "table" and not Path(settings["path"]).expanduser().exists()
    return [f"reports.path, {settings['path']}: your own table"] if is_absent else []


def missing_images(study: ImageTextStudy) -> list[str]:
    """List missing image files and where to get them; some sources keep images and captions in the same folder."""
    settings, lists = study.dataset.model_dump(), study.evaluation.chexpert_8x200
    missing = source_module(settings["source"]).missing_files(settings) if "path" in settings else []
    return missing + (chexpert_8x200.missing_files(lists.model_dump()) if lists is not None else [])
