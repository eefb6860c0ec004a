"""What every source of real images with text does alike: read tables, write sentences, and join both to one source."""

import csv
import gzip
import hashlib
import logging
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock
from PIL import __version__ as pillow_version

from trueneg.data.image_cache import TREATMENT, cache_images
from trueneg.data.image_files import EncodedImages
from trueneg.data.pairs.pair_source import PairSource, join_sentences, write_pairs
from trueneg.errors import UserError
from trueneg.io.files import writable
from trueneg.io.shared_cache import cache_folder
from trueneg.text import privacy
from trueneg.text.sections import MARK

log = logging.getLogger(__name__)


def read_columns(path: str | Path, columns: Sequence[str], origin: str | None = None) -> pd.DataFrame:
    """Columns of a CSV file (UTF-8, commas) or parquet file, as they are written there.

    Args:
        path: ends in ``.csv``, ``.csv.gz`` or ``.parquet``.
        columns: which.
        origin: of a file that is part of a known data set, the sentence that says where a whole copy is had; it is the remedy
            of every mistake. None: the file is the user's own.

    Returns:
        The columns, values as they are (of a CSV file, str). The index tells where a row is, in words: ``line 2`` of a CSV file
        (the header is line 1), ``row 0`` of a parquet file.

    Raises:
        UserError: if the file is missing or damaged, lacks a column, or has a row with other than the header's columns.
    """
    path = Path(path)
    if not path.is_file():
        remedy = origin or "Check its name."
        raise UserError(f"{path}: is not there, expected a table with the columns {', '.join(columns)}. {remedy}")
    try:
        if path.suffix == ".parquet":
            return _read_parquet(path, columns, origin)
        if path.name.endswith((".csv", ".csv.gz")):
            return _read_csv(path, columns, origin)
    except (pa.ArrowException, OSError, EOFError, zlib.error, csv.Error, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())[:120].rstrip(".")
        remedy = origin or "Get a whole copy; a CSV file has to be UTF-8."
        raise UserError(f"{path}: cannot be read as a table ({reason}). {remedy}") from error
    raise UserError(f"{path}: is no .csv, .csv.gz or .parquet file; save the table as one of these.")


def _read_parquet(path: Path, columns: Sequence[str], origin: str | None) -> pd.DataFrame:
    with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
        _require(columns, parquet.schema_arrow.names, path, origin)
        table = parquet.read(columns=list(columns))
    # By way of Python's values: pandas would make a column of integers with one missing one of floats.
    frame = pd.DataFrame({name: pd.Series(table.column(name).to_pylist(), dtype=object) for name in columns})
    return frame.set_axis([f"row {number:,} (the first is 0)" for number in range(len(frame))])


def _read_csv(path: Path, columns: Sequence[str], origin: str | None) -> pd.DataFrame:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as stream:
        reader = csv.DictReader(stream, strict=True)
        _require(columns, reader.fieldnames or [], path, origin)
        rows, places = [], []
        for row in reader:
            # Under None, as csv has it: what is beyond the header's columns; a column that is not there has the value None.
            given = [value for value in (*row.pop(None, ()), *row.values()) if value is not None]
            # A row may go over several lines, in quotation marks.
            place = f"line {reader.line_num - sum(value.count(chr(10)) for value in given):,}"
            if len(given) != len(reader.fieldnames):
                remedy = origin or "Put text that holds a comma or a quotation mark in quotation marks."
                found = f"has {len(given)} columns, expected the {len(reader.fieldnames)} of the header"
                raise UserError(f"{path}: {place} {found}. {remedy}")
            rows.append([row[name] for name in columns])
            places.append(place)
    return pd.DataFrame(rows, columns=list(columns), index=places, dtype=object)


def _require(columns: Sequence[str], present: Sequence[str], path: Path, origin: str | None) -> None:
    missing = [name for name in columns if name not in present]
    if missing:
        remedy = origin or "Rename a column, or name yours in the config."
        raise UserError(f"{path}: has no column {', '.join(missing)} (found {', '.join(present) or 'none'}). {remedy}")
    twice = sorted({name for name in columns if list(present).count(name) > 1})
    if twice:
        remedy = origin or "Rename or remove one."
        raise UserError(f"{path}: has the column {', '.join(twice)} more than once, expected once. {remedy}")


def write_sentences(table: pd.DataFrame, *, sentences: str | Path, unique: str | Path, restricted: bool) -> None:
    """Write sentences that need no splitting (captions) as :func:`trueneg.text.sentences.split_reports` writes those of reports.

    Args:
        table: ``report``, ``patient``, ``index`` (from 0, within a report), ``sentence``.
        sentences: parquet file to write: those, and ``marked`` (whether it holds a mark of de-identification).
        unique: parquet file to write: ``sentence``, ``count``, the most frequent first.
        restricted: whether the text may not be shown.
    """
    found = table[["report", "patient", "index", "sentence"]].astype({"index": "int32"})
    found["marked"] = found["sentence"].str.contains(MARK, regex=False)
    counts = found["sentence"].value_counts(sort=False).rename_axis("sentence").reset_index(name="count")
    counts = counts.sort_values(["count", "sentence"], ascending=[False, True], ignore_index=True)
    privacy.write_table(found, sentences, restricted)
    privacy.write_table(counts, unique, restricted)


def joined_sentences(
    sentences: str | Path, reports: np.ndarray, *, eta: str | Path | None, assigned: pd.DataFrame | None = None
) -> tuple[pd.DataFrame, bool]:
    """The sentences of some reports, as a source has them.

    Args:
        sentences: parquet file: ``report``, ``index``, ``sentence``.
        reports: ids of the reports that are wanted; some may have no sentence.
        eta: parquet file of :func:`trueneg.text.eta.write_class_probabilities`; None: no class probability is known.
        assigned: ``report``, ``index``, ``class``, the number of each sentence's class; None: no class is known.

    Returns:
        The table of :class:`trueneg.data.pairs.pair_source.PairSource`, and whether it is restricted.

    Raises:
        UserError: if a file is missing or damaged, or they are of different sentences.
    """
    table, restricted = privacy.read_table(sentences)
    table = table[table["report"].isin(set(reports.tolist()))]
    probabilities = None if eta is None else privacy.read_table(eta)[0]
    try:
        return join_sentences(table, assigned=assigned, eta=probabilities), restricted
    except ValueError as error:
        raise UserError(f"{sentences}: does not fit the tables beside it: {error}") from error


def with_sentences(reports: np.ndarray, sentences: pd.DataFrame, source: str) -> np.ndarray:
    """Which images can be used: bool (n,), whether an image's report has a sentence; the others are counted in the log.

    Args:
        reports: (n,) the report of each image.
        sentences: a row a sentence, with the column ``report``.
        source: what to call the images in messages.

    Raises:
        UserError: if none has.
    """
    has = np.isin(reports, sentences["report"].to_numpy(str))
    if not has.any():
        raise UserError(
            f"{source}: none of the {len(has):,} images has a sentence; the images and the text are of different data."
        )
    if not has.all():
        log.info("%s of %s images are left out: their reports have no sentence", f"{(~has).sum():,}", f"{len(has):,}")
    return has


def write_image_pairs(
    name: str,
    images: EncodedImages,
    *,
    mode: str,
    resolution: int,
    reports: np.ndarray,
    patients: np.ndarray,
    sentences: pd.DataFrame,
    labels: np.ndarray,
    label_names: tuple[str, ...],
    shown: np.ndarray,
    restricted: bool,
    cache: str | Path,
    pairs: str | Path,
    threads: int,
) -> None:
    """Decode images into a cache, and write them with their sentences.

    Args:
        name: of the source.
        images: n encoded images.
        mode: ``"L"`` (grey) or ``"RGB"``.
        resolution: side of the squares that are made of them (:func:`trueneg.data.image_cache.decode_square`).
        reports, patients, sentences, labels, label_names, shown, restricted: as of
            :class:`trueneg.data.pairs.pair_source.PairSource`.
        cache: folder of decoded images, unless a shared one is set (:mod:`trueneg.io.shared_cache`); it may be removed
            afterwards.
        pairs: .npz file to write, the sentences beside it (:func:`trueneg.data.pairs.pair_source.write_pairs`).
        threads: that decode.

    Raises:
        UserError: if images are missing or damaged, or the disk is too small.
    """
    decoded = cache_folder(cache, "images", restricted=restricted)
    if decoded != Path(cache):
        decoded /= _known_by(images, mode, resolution)
    lock = decoded / "lock"
    with writable(lock), privacy.owner_only(restricted), FileLock(lock, fallback_to_soft=False):
        pixels = cache_images(images, decoded, mode=mode, resolution=resolution, threads=threads)
    source = PairSource(name, pixels, reports, patients, sentences, labels, label_names, shown, restricted)
    write_pairs(source, pairs)
    log.info("%s: %s images with %s sentences", name, f"{len(images):,}", f"{len(sentences):,}")


def _known_by(images: EncodedImages, mode: str, resolution: int) -> str:
    """What tells the decoded images of one build apart from all others: their files, and what is done to them."""
    parts = [TREATMENT, pillow_version, mode, str(resolution), *images.stamps()]
    return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24]
