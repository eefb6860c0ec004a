"""Split reports into sentences with pySBD (Sadvilkar and Neumann, 2020), in parallel and only once per text."""

import functools
import itertools
import logging
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from trueneg.io import privacy
from trueneg.io.shared_cache import cache_folder
from trueneg.runtime.processes import map_in_processes
from trueneg.specs.stages import VERSIONS
from trueneg.text.chunks import cached
from trueneg.text.cleaning import MARK, clean, has_words

log = logging.getLogger(__name__)

TEXTS_PER_TASK = 50
USED = "used"  # state of a report whose text can be split


def split_sentences(text: str) -> list[str]:
    """Split a text into sentences after cleaning it with :func:`trueneg.text.cleaning.clean`.

    Args:
        text: findings, an impression, or both; empty lines separate paragraphs.

    Returns:
        Sentences in order, with their final full stops; those without words are dropped.

    Raises:
        ValueError: if the text is not a string.

    Example:
        >>> split_sentences("1. No acute disease. 2. The nodule measures 1.4 cm.Heart size is normal.")
        ['No acute disease.', 'The nodule measures 1.4 cm.', 'Heart size is normal.']
    """
    if not isinstance(text, str):
        raise ValueError(f"text is {type(text).__name__}; expected a string.")
    sentences = []
    for paragraph in clean(text).split("\n"):
        sentences += [sentence.strip() for sentence in _segmenter().segment(paragraph)] if paragraph else []
    return [sentence for sentence in sentences if has_words(sentence)]


def split_reports(
    reports: str | Path, *, sentences: str | Path, unique: str | Path, cache: str | Path, processes: int = 1
) -> None:
    """Split every usable report into sentences; texts that were split earlier are read from the cache.

    Args:
        reports: table written by :func:`trueneg.data.reports.prepare.prepare_reports`.
        sentences: parquet file to write: ``report``, ``patient``, ``index`` (from 0), ``sentence``, ``marked`` (whether it
            contains a de-identification mark).
        unique: parquet file to write: ``sentence``, ``count``, most frequent first.
        cache: folder of texts split earlier, keyed by content, unless a shared cache is set (:mod:`trueneg.io.shared_cache`).
        processes: number of worker processes; a killed job loses only seconds of their work.
    """
    table, restricted = privacy.read_table(reports)
    used = table[table["state"] == USED].reset_index(drop=True)
    write_sentences(split_texts(used, cache, processes, restricted), sentences, unique, restricted)


def split_texts(used: pd.DataFrame, cache: str | Path, processes: int, restricted: bool) -> pd.DataFrame:
    """Split the texts of reports into sentences.

    Args:
        used: table with ``report``, ``patient``, ``text``, indexed from 0.
        cache, processes: as for :func:`split_reports`.
        restricted: whether the texts are confidential.

    Returns:
        One row per sentence: ``report``, ``patient``, ``index``, ``sentence``.
    """
    store = cache_folder(cache, "sentences", restricted=restricted) / _splitter_version()
    split = cached(store, used["text"], ["sentences"], functools.partial(_split, processes=processes), restricted)
    sentences = used[["report", "patient"]].assign(sentence=list(split["sentences"]))
    sentences["index"] = [range(len(listed)) for listed in sentences["sentence"]]
    sentences = sentences.explode(["sentence", "index"], ignore_index=True).dropna(subset="sentence")
    log.info("%s of %s texts have no sentence", f"{len(used) - sentences['report'].nunique():,}", f"{len(used):,}")
    return sentences


def write_sentences(table: pd.DataFrame, sentences: str | Path, unique: str | Path, restricted: bool) -> None:
    """Write sentences, and the unique ones with their counts, to the files described in :func:`split_reports`."""
    table = table.assign(marked=table["sentence"].str.contains(MARK, regex=False)).astype({"index": "int32"})
    counts = table["sentence"].value_counts(sort=False).rename_axis("sentence").reset_index(name="count")
    counts = counts.sort_values(["count", "sentence"], ascending=[False, True], ignore_index=True)
    privacy.write_table(table[["report", "patient", "index", "sentence", "marked"]], sentences, restricted)
    privacy.write_table(counts, unique, restricted)
    log.info("%s sentences, %s of them unique", f"{len(table):,}", f"{len(counts):,}")


@functools.cache
def _segmenter() -> Any:
    import pysbd

    return pysbd.Segmenter(language="en", clean=False)


def _splitter_version() -> str:
    """Return a cache key that changes with pySBD and with the splitter's version."""
    return f"pysbd-{version('pysbd')}-version-{VERSIONS['splitter']}"


def _split(texts: Sequence[str], processes: int) -> Iterator[pd.DataFrame]:
    """Split texts and yield their sentences in batches."""
    split = map_in_processes(split_sentences, texts, processes=processes, chunksize=TEXTS_PER_TASK)
    rows = zip(texts, tqdm(split, "sentences", len(texts), False, unit=" texts", disable=None), strict=True)
    while some := dict(itertools.islice(rows, TEXTS_PER_TASK)):
        yield pd.Series(some, name="sentences").to_frame()
