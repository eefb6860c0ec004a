"""Sources of images with sentences: one module each, found by the name that a configuration gives.

A module ``trueneg.data.pairs.<name>`` has

- ``read_images(settings, tables, threads)``, which gives a :class:`~trueneg.data.pairs.pair_images.PairImages`.
  `settings` are those of the data set over those of its texts, `tables` the tables of its texts that its settings class names
  in ``TEXT_TABLES``. A source that draws its images does so with `threads` processes;
- ``read_texts(settings)`` if its texts belong to images by name (``captions`` of its settings class): a row for each text with
  ``report``, ``patient`` and ``text``. A text is a sentence, unless the setting ``split_sentences`` is true;
- ``user_files(settings)``, a :class:`trueneg.io.files.UserFiles`: what is watched for changes; needed with a setting ``path``;
- ``missing_files(settings)``: what ``trueneg check`` reports as missing, a line each; needed with a setting ``path``.
"""

import hashlib
import importlib
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock
from PIL import __version__ as pillow_version

from trueneg.data.image_cache import TREATMENT, cache_images
from trueneg.data.image_files import EncodedImages
from trueneg.data.pairs.pair_images import PairImages
from trueneg.data.pairs.pair_source import PairSource, beside, join_sentences, write_pairs
from trueneg.errors import UserError
from trueneg.io.files import writable
from trueneg.io.shared_cache import cache_folder
from trueneg.text import privacy
from trueneg.text.reports import COLUMNS, USED
from trueneg.text.sections import MARK
from trueneg.text.sentences import split_reports

log = logging.getLogger(__name__)

TABLES = ("boxes", "splits", "ratings", "classes")  # what a source may know besides images and sentences


def source_module(name: str) -> ModuleType:
    """The module that reads a source."""
    return importlib.import_module(f"trueneg.data.pairs.{name}")


def write_captions(
    settings: Mapping[str, Any], *, sentences: str | Path, unique: str | Path, cache: str | Path, processes: int = 1
) -> None:
    """Write the sentences of a source whose texts belong to images by name, as :func:`trueneg.text.sentences.split_reports` does.

    Args:
        settings: ``source``, and what the ``read_texts`` of its module asks for.
        sentences, unique: parquet files to write.
        cache: folder of texts that were split before.
        processes: that split.

    Raises:
        UserError: if something of the source is missing or damaged.
    """
    texts = source_module(settings["source"]).read_texts(settings)
    restricted = settings.get("restricted", False)
    if not settings.get("split_sentences", False):
        _write_whole_texts(texts, sentences, unique, restricted)
        return
    # An empty line ends a paragraph, and so a sentence.
    reports = texts.groupby(["report", "patient"], sort=False, as_index=False)["text"].agg("\n\n".join)
    reports = reports.assign(state=USED, reason="", sections="text")[COLUMNS]
    Path(sentences).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".reports", dir=Path(sentences).parent) as scratch:
        path = Path(scratch) / "reports.parquet"
        privacy.write_table(reports, path, restricted)
        split_reports(path, sentences=sentences, unique=unique, cache=cache, processes=processes)


def _write_whole_texts(texts: pd.DataFrame, sentences: str | Path, unique: str | Path, restricted: bool) -> None:
    """Write texts that are a sentence each."""
    found = texts[["report", "patient"]].assign(
        index=texts.groupby("report").cumcount().astype("int32"),
        sentence=texts["text"].map(lambda text: " ".join(text.split())),
    )
    found["marked"] = found["sentence"].str.contains(MARK, regex=False)
    counts = found["sentence"].value_counts(sort=False).rename_axis("sentence").reset_index(name="count")
    counts = counts.sort_values(["count", "sentence"], ascending=[False, True], ignore_index=True)
    privacy.write_table(found, sentences, restricted)
    privacy.write_table(counts, unique, restricted)


def prepare_pairs(
    settings: Mapping[str, Any], text: Mapping[str, str | Path], pairs: str | Path, *, cache: str | Path, threads: int
) -> None:
    """Decode a source's images, and write them with their sentences.

    Args:
        settings: ``source``, ``resolution``, and what the ``read_images`` of its module asks for.
        text: parquet files by name: ``sentences``, the tables of its reports that the source asks for, and ``eta`` of
            :func:`trueneg.text.eta.write_class_probabilities` (without it no class probability is known).
        pairs: .npz file to write, the sentences beside it, and each of :data:`TABLES`, empty where the source has none.
        cache: folder of decoded images, unless a shared one is set (:mod:`trueneg.io.shared_cache`); may be removed later.
        threads: that decode or draw.

    Raises:
        UserError: if something is missing or damaged, the tables do not belong together, or the disk is too small.
    """
    Path(pairs).parent.mkdir(parents=True, exist_ok=True)
    tables = {name: privacy.read_table(path)[0] for name, path in text.items()}
    restricted = privacy.read_table(text["sentences"])[1]
    found = source_module(settings["source"]).read_images(settings, tables, threads)
    if restricted != found.restricted:
        said = f"was made from texts that are {'' if restricted else 'not '}restricted, but the images are"
        raise UserError(f"{text['sentences']}: {said}{'' if found.restricted else ' not'}. Remove it to have it made again.")
    own = tables["sentences"][tables["sentences"]["report"].isin(set(found.reports.tolist()))]
    count = len(found.reports)
    try:
        sentences = join_sentences(own, assigned=found.assigned, classes=found.probabilities, eta=tables.get("eta"))
    except ValueError as error:
        raise UserError(f"{text['sentences']}: does not fit the images or the tables beside it: {error}") from error
    images = _decoded(found, settings["resolution"], cache, threads)
    try:
        source = PairSource(
            settings["source"],
            images=images,
            reports=found.reports,
            patients=found.patients,
            sentences=sentences,
            labels=found.labels.to_numpy(np.float32).reshape(count, -1),
            label_names=tuple(found.labels.columns),
            shown=np.zeros((count, 0), bool) if found.shown is None else found.shown,
            restricted=restricted,
        )
    except ValueError as error:
        raise UserError(f"{text['sentences']}: does not fit the images or the tables beside it: {error}") from error
    write_pairs(source, pairs)
    for name in TABLES:
        privacy.write_table(found.tables.get(name, pd.DataFrame()), beside(pairs, name), restricted)
    log.info("%s: %s images with %s sentences", source.name, f"{count:,}", f"{len(source.sentences):,}")


def _decoded(found: PairImages, resolution: int, cache: str | Path, threads: int) -> np.ndarray:
    if isinstance(found.images, np.ndarray):
        return found.images
    folder = cache_folder(cache, "images", restricted=found.restricted)
    if folder != Path(cache):
        folder /= _known_by(found.images, found.mode, resolution)
    lock = folder / "lock"
    with writable(lock), privacy.owner_only(found.restricted), FileLock(lock, fallback_to_soft=False):
        return cache_images(found.images, folder, mode=found.mode, resolution=resolution, threads=threads)


def _known_by(images: EncodedImages, mode: str, resolution: int) -> str:
    """What tells the decoded images of one build apart from all others: their files, and what is done to them."""
    parts = [TREATMENT, pillow_version, mode, str(resolution), *images.stamps()]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]
