"""Image–text sources, one module each, found by the name given in the configuration.

A module ``trueneg.data.pairs.<name>`` defines

- ``read_images(settings, tables, threads)``, which returns a
  :class:`~trueneg.data.pairs.pair_images.PairImages`. `settings` merges the settings of the texts
  with those of the dataset, which take precedence. `tables` contains the text tables listed in
  ``TEXT_TABLES`` of the source's settings class. A source that draws its images uses `threads`
  processes;
- ``read_texts(settings)``, if its texts belong to named images (``captions`` is True in its
  settings class). It returns one row per text with ``report``, ``patient`` and ``text``. Each text
  is a sentence unless the setting ``split_sentences`` is true;
- ``user_files(settings)``, which returns the files to watch for changes as a
  :class:`trueneg.io.files.UserFiles`; required if there is a setting ``path``;
- ``missing_files(settings)``, which returns the lines that ``trueneg check`` reports, one per
  missing file; required if there is a setting ``path``.
"""

import importlib
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.identical_images import describe_identical
from trueneg.data.image_cache import LONGEST, cache_images
from trueneg.data.image_files import check_images, file_contents
from trueneg.data.pairs.hard_negatives import join_negatives, lost_negatives
from trueneg.data.pairs.pair_images import PairImages, Tables
from trueneg.data.pairs.pair_source import PairSource, beside, join_sentences, write_pairs
from trueneg.data.tables import single_spaced
from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.specs.pairs import TEXTS
from trueneg.specs.sections import Section
from trueneg.specs.texts import TEXT_PAIRS
from trueneg.text.sentences import split_texts, write_sentences

log = logging.getLogger(__name__)

MODELS = "language_models"  # the manifest among the files of the text steps
# optional tables of a source besides images and sentences
TABLES = ("boxes", "splits", "ratings", "classes")


def source_module(name: str) -> ModuleType:
    """Return the module that reads a source of pairs or of texts."""
    return importlib.import_module(
        f"trueneg.data.texts.{name}" if name in TEXT_PAIRS else f"trueneg.data.pairs.{name}"
    )


def write_captions(
    settings: Section,
    *,
    sentences: str | Path,
    unique: str | Path,
    cache: str | Path,
    processes: int = 1,
) -> None:
    """Write the sentences of a source that matches texts to images by name; see
    :func:`trueneg.text.sentences.split_reports`.

    Args:
        settings: ``source`` and the settings used by ``read_texts`` of its module.
        sentences, unique: parquet files to write.
        cache: folder of texts that have already been split.
        processes: number of processes that split texts.

    Raises:
        UserError: if a file of the source is missing or damaged.
    """
    listed = _captions(settings, cache, processes)
    write_sentences(listed, sentences, unique, settings.get("restricted", False))


def _captions(settings: Section, cache: str | Path, processes: int = 1) -> DataFrame:
    """Return the sentences of :func:`write_captions`."""
    texts = source_module(settings["source"]).read_texts(settings)
    if not settings.get("split_sentences", False):
        return texts[["report", "patient"]].assign(
            index=texts.groupby("report").cumcount(), sentence=single_spaced(texts["text"])
        )
    by_report = texts.groupby(["report", "patient"], sort=False, as_index=False)
    # An empty line ends a paragraph and therefore a sentence.
    reports = by_report["text"].agg("\n\n".join)
    restricted = settings.get("restricted", False)
    return split_texts(reports, cache, processes, restricted, settings.get("language", "en"))


def prepare_pairs(
    settings: Section,
    text: Mapping[str, str | Path],
    pairs: str | Path,
    *,
    cache: str | Path,
    threads: int,
) -> None:
    """Decode a source's images and write them with their sentences.

    Args:
        settings: ``source``, ``resolution`` and the settings used by ``read_images`` of its module.
        text: files by name: ``sentences``, the report tables required by the source, ``eta``
            written by :func:`trueneg.text.eta.write_class_probabilities` (without it, class
            probabilities are unknown), and ``language_models``, the manifest of the models that
            scored the sentences (without it, they cannot be embedded).
        pairs: .npz file to write; the sentences and each of :data:`TABLES` (empty if the source has
            none) are written next to it.
        cache: folder of decoded images; may be removed afterwards.
        threads: number of threads that decode images, or of processes that draw them.

    Raises:
        UserError: if a file is missing or damaged, the tables do not belong together, or the disk
            is too small.
    """
    # imports torch, which `trueneg check` does not need
    from trueneg.text.loading import first_model

    Path(pairs).parent.mkdir(parents=True, exist_ok=True)
    read = {name: privacy.read_table(path) for name, path in text.items() if name != MODELS}
    tables = {name: table for name, (table, _) in read.items()}
    _, restricted = read["sentences"]
    data = source_module(settings["source"]).read_images(settings, tables, threads)
    if restricted != data.restricted:
        raise UserError(
            f"{text['sentences']}: restricted is {restricted} for these texts, but"
            f" {data.restricted} for the images. Remove the file, then run the same command again."
        )
    try:
        source = _joined(
            settings,
            tables,
            data,
            cache=cache,
            threads=threads,
            language_model=first_model(text[MODELS]) if MODELS in text else None,
        )
    except ValueError as error:
        raise UserError(
            f"{text['sentences']} does not match the images or the tables next to it: {error}"
        ) from error
    write_pairs(source, pairs)
    for name in TABLES:
        privacy.write_table(data.tables.get(name, DataFrame()), beside(pairs, name), restricted)
    if identical := describe_identical(source.images):
        log.warning(f"{source.name}: {identical}")
    log.info(f"{source.name}: {source.summary}")


def first_look(
    settings: Section, cache: Path, decoded: float
) -> tuple[PairSource, DataFrame | None] | None:
    """Join a source as :func:`prepare_pairs` does, but with whole texts in place of sentences.

    Args:
        settings, cache: as there.
        decoded: unless it is infinite, images are only opened: radiographs take long to decode.

    Returns:
        The source and any official splits; None if its texts must be prepared first.
    """
    if not TEXTS[settings["source"]].captions:
        return None
    module = source_module(settings["source"])
    if hasattr(module, "check_table"):
        module.check_table(settings)
    tables = {"sentences": _captions({**settings, "split_sentences": False}, cache)}
    threads = os.cpu_count() or 1
    data = module.read_images(settings, tables, threads)
    source = _joined(settings, tables, data, cache=cache, threads=threads, opens=decoded < math.inf)
    return source, data.tables.get("splits")


def _joined(
    settings: Section,
    tables: Tables,
    data: PairImages,
    *,
    cache: str | Path,
    threads: int,
    language_model: Mapping[str, Any] | None = None,
    opens: bool = False,
) -> PairSource:
    """Join images with their sentences, and decode the images or, if `opens`, only open them.

    Raises:
        ValueError: if the tables do not belong together.
    """
    skipped = ""
    allowed = settings.get("skip_incomplete", False)
    if allowed or opens:
        encoded: Any = data.images
        how: dict[str, Any] = {"decode": not opens, "longest": LONGEST, "threads": threads}
        usable, skipped = check_images(encoded, settings["path"], allowed, **how)
        data = data.part(usable)
    sentences = tables["sentences"]
    sentences = sentences[sentences["report"].isin(data.reports)]
    images: Any = data.images
    if opens:
        # splits of the user's own may share some; published data sets have too many
        images = file_contents(images, read=settings.get("split_column") is not None)
    elif not isinstance(images, ndarray):
        with privacy.owner_only(data.restricted):
            images = cache_images(
                images,
                cache,
                mode=data.mode,
                resolution=settings["resolution"],
                fit=data.fit,
                threads=threads,
            )
    count = len(data.reports)
    lost = lost_negatives(data.reports, data.negatives)
    own = data.tables["splits"].set_index("report") if settings.get("split_column") else None
    sentences = join_sentences(
        sentences, assigned=data.assigned, classes=data.probabilities, eta=tables.get("eta")
    )
    return PairSource(
        settings["source"],
        sentences=sentences,
        images=images,
        reports=data.reports,
        patients=data.patients,
        labels=data.labels.to_numpy(np.float32).reshape(count, -1),
        label_names=tuple(data.labels.columns),
        shown=np.zeros((count, 0), bool) if data.shown is None else data.shown,
        restricted=data.restricted,
        skipped=" ".join(filter(None, (data.skipped, skipped, lost))),
        language_model=language_model,
        own_splits=np.array([] if own is None else own.loc[data.reports, "split"], dtype=str),
        negatives=join_negatives(sentences, data.reports, data.negatives),
    )
