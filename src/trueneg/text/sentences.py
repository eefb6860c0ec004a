"""Split reports into sentences with pySBD (Sadvilkar and Neumann, 2020), in parallel and only once
per text.
"""

import functools
import itertools
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series
from tqdm import tqdm

from trueneg.errors import UserError
from trueneg.io import privacy
from trueneg.runtime.processes import map_in_processes
from trueneg.specs.languages import NO_LANGUAGE
from trueneg.specs.stages import VERSIONS
from trueneg.text.chunks import cached
from trueneg.text.cleaning import MARK, clean, has_words
from trueneg.text.words import is_mostly_latin

log = logging.getLogger(__name__)

TEXTS_PER_TASK = 50
USED = "used"  # state of a report whose text can be split
LIMIT = 20.0  # seconds of processor time to split a text
# pySBD's time grows with the square of the length, so longer paragraphs are split in parts, at the
# end of a sentence if possible.
PART = re.compile(
    r"(?s).{1,10000}\Z|.{1,9999}(?:(?<=[.!?؟۔])\s|[。．！？।။።])|.{1,9999}\s|.{1,10000}"
)
# pySBD's pattern of references after a full stop, .[1, 2], with only one way to read a number. The
# original tries all combinations of several ways, so its time grows fourfold with each number.
REFERENCE = (
    r"(?<=[^\d\s])(\.|∯)((\[(\d+(?:,\s?-?\s?|\s-?\s?|-\s?))*\d{1,3}\])+"
    r"|((\d{1,3}\s?)?\d{1,3}))(\s)(?=[A-Z])"
)


def split_sentences(text: str, language: str = "en") -> list[str]:
    """Split a text into sentences after cleaning it with :func:`trueneg.text.cleaning.clean`.

    Args:
        text: findings, an impression, or both; empty lines separate paragraphs.
        language: a language of pySBD, such as ``"zh"``, or ``"none"``: each paragraph is one
            sentence.

    Returns:
        Sentences in order, with their final full stops; those without words are dropped.

    Raises:
        ValueError: if the text is not a string, or the language is unknown.
        TimeoutError: if the text takes more than 20 seconds of processor time.

    Example:
        >>> split_sentences(
        ...     "1. No acute disease. 2. The nodule measures 1.4 cm.Heart size is normal."
        ... )
        ['No acute disease.', 'The nodule measures 1.4 cm.', 'Heart size is normal.']
    """
    if not isinstance(text, str):
        raise ValueError(f"text is {type(text).__name__}; expected a string.")
    paragraphs = clean(text, language).split("\n")
    began = time.thread_time()
    if language == NO_LANGUAGE:
        return list(filter(None, paragraphs))
    sentences: list[str] = []
    for part in itertools.chain.from_iterable(map(PART.findall, paragraphs)):
        sentences += map(str.strip, _segmenter(language)(part))
        if time.thread_time() - began > LIMIT:
            raise TimeoutError(
                f"splitting it into sentences takes more than {LIMIT:g} s. Shorten it, or set"
                " language to none, so that each paragraph is one sentence."
            )
    return [sentence for sentence in sentences if has_words(sentence)]


def split_reports(
    reports: str | Path,
    *,
    sentences: str | Path,
    unique: str | Path,
    cache: str | Path,
    processes: int = 1,
) -> None:
    """Split every usable report into sentences; texts that were split earlier are read from the
    cache.

    Args:
        reports: table written by :func:`trueneg.data.reports.prepare.prepare_reports`.
        sentences: parquet file to write: ``report``, ``patient``, ``index`` (from 0), ``sentence``,
            ``marked`` (whether it contains a de-identification mark).
        unique: parquet file to write: ``sentence``, ``count``, most frequent first.
        cache: folder of texts split earlier, keyed by content.
        processes: number of worker processes; a killed job loses only seconds of their work.
    """
    table, restricted = privacy.read_table(reports)
    used = table[table["state"] == USED].reset_index(drop=True)
    write_sentences(split_texts(used, cache, processes, restricted), sentences, unique, restricted)


def split_texts(
    used: DataFrame, cache: str | Path, processes: int, restricted: bool, language: str = "en"
) -> DataFrame:
    """Split the texts of reports into sentences.

    Args:
        used: table with ``report``, ``patient``, ``text``, indexed from 0.
        cache, processes: as for :func:`split_reports`.
        restricted: whether the texts are confidential.
        language: as for :func:`split_sentences`.

    Returns:
        One row per sentence: ``report``, ``patient``, ``index``, ``sentence``.

    Raises:
        UserError: if splitting a text takes too long; the message gives its report, by number if
            the texts are confidential.
    """
    if language == "en" and not is_mostly_latin(used["text"]):
        log.warning(
            "reports.language is en, but most letters of the texts are not Latin. Set it to their"
            " language, or to none."
        )
    store = Path(cache, _splitter_version() + f"-{language}" * (language != "en"))
    names = dict(zip(used["text"], used.index + 1 if restricted else used["report"], strict=True))
    compute = functools.partial(_split, names=names, processes=processes, language=language)
    split = cached(store, used["text"], ["sentences"], compute, restricted)
    sentences = used[["report", "patient"]].assign(sentence=list(split["sentences"]))
    sentences["index"] = sentences["sentence"].map(len).map(range)
    sentences = sentences.explode(["sentence", "index"], ignore_index=True)
    sentences = sentences.dropna(subset="sentence")
    log.info(
        f"{len(used) - sentences['report'].nunique():,} of {len(used):,} texts have no sentence",
    )
    return sentences


def write_sentences(
    table: DataFrame, sentences: str | Path, unique: str | Path, restricted: bool
) -> None:
    """Write sentences, and the unique ones with their counts, to the files described in
    :func:`split_reports`.
    """
    table = table[["report", "patient", "index", "sentence"]].astype({"index": "int32"})
    table["marked"] = table["sentence"].str.contains(MARK, regex=False)
    counts = table["sentence"].value_counts(sort=False).reset_index()
    counts = counts.sort_values(["count", "sentence"], ascending=[False, True], ignore_index=True)
    privacy.write_table(table, sentences, restricted)
    privacy.write_table(counts, unique, restricted)
    log.info(f"{len(table):,} sentences, {len(counts):,} of them unique")


@functools.cache
def _segmenter(language: str) -> Callable[[str], list[str]]:
    """Return pySBD's function for a language, with another pattern of references."""
    import pysbd

    segmenter: Any = pysbd.Segmenter(language=language, clean=False)
    segmenter.language_module = type(
        "Rules", (segmenter.language_module,), {"NUMBERED_REFERENCE_REGEX": REFERENCE}
    )
    return segmenter.segment


def _split_report(text: str, name: str | int, language: str) -> list[str]:
    try:
        return split_sentences(text, language)
    except TimeoutError as error:
        raise UserError(f"report {name}: {error}") from None


def _splitter_version() -> str:
    """Return a cache key that changes with pySBD and with the splitter's version."""
    return f"pysbd-{version('pysbd')}-version-{VERSIONS['splitter']}"


def _split(
    texts: Sequence[str], names: Mapping[str, str | int], processes: int, language: str
) -> Iterator[DataFrame]:
    """Split texts, whose reports have the given names, and yield their sentences in batches."""
    split = map_in_processes(
        functools.partial(_split_report, language=language),
        texts,
        [names[text] for text in texts],
        processes=processes,
        chunksize=TEXTS_PER_TASK,
    )
    shown = tqdm(split, "sentences", len(texts), False, unit=" texts", disable=None)
    rows = zip(texts, shown, strict=True)
    while some := dict(itertools.islice(rows, TEXTS_PER_TASK)):
        yield Series(some, name="sentences").to_frame()
