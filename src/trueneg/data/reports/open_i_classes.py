"""Assign sentences of Open-I to latent classes, based on the experts' MeSH codes of whole reports.

If the only code of a report is ``normal``, all its sentences have the class ``normal``. In other
reports, a sentence has the class of a heading (``Pleural Effusion``) if the report has a code with
that heading and the sentence affirms it: the sentence contains a word from the heading's list that
does not follow a negation (no, without, free of, …). If it affirms several headings, the first one
mentioned counts. All other sentences (negations in a report that is not normal, comparisons,
recommendations, findings without a code) have no class. The word lists are short and were written
from the headings, not fitted to the sentences.

The probability of a class is the fraction of all coded reports that have its heading.
"""

import logging
import re
from pathlib import Path

import pandas as pd
from pandas import DataFrame, Series

from trueneg.data.reports.open_i import image_codes
from trueneg.io import privacy

log = logging.getLogger(__name__)

NORMAL = "normal"
NOT_INDEXED = "No Indexing"
WORDS = pd.read_csv(Path(__file__).with_name("open_i_words.csv"), index_col="heading")[
    "pattern"
].to_dict()
DENIAL = re.compile(
    r"\b(?:no|not|without|negative|free of|clear"
    r" of|absence|absent|nor|neither|never|resolv\w+|unremarkable|"
    r"rather than|rule out)\b",
    re.I,
)
ENDS_DENIAL = re.compile(
    r"\b(?:but|however|although|though|except|other than|aside from|apart from)\b|;", re.I
)


def class_of(sentence: str, headings: frozenset[str]) -> str | None:
    """Return the class of a sentence from a report that is not normal.

    Args:
        sentence: any sentence of the report.
        headings: headings of the report's codes.

    Returns:
        A heading, or None.

    Example:
        >>> codes = frozenset({"Pleural Effusion", "Cardiomegaly"})
        >>> (
        ...     class_of("There is a small left effusion.", codes),
        ...     class_of("No effusion is seen.", codes),
        ... )
        ('Pleural Effusion', None)
    """
    affirmed = [
        (match.start(), -len(match[0]), heading)
        for heading in headings & WORDS.keys()
        for match in re.finditer(rf"\b(?:{WORDS[heading]})", sentence, re.I)
        if not DENIAL.search(ENDS_DENIAL.split(sentence[: match.start()])[-1])
    ]
    return min(affirmed)[2] if affirmed else None


def coded_headings(codes: DataFrame) -> Series:
    """Return the set of code headings of each indexed report; a report is normal only if ``normal``
    is its sole heading.
    """
    headings = (
        codes["code"].str.split("/").str[0].str.strip().groupby(codes["report"]).agg(frozenset)
    )
    return headings[[NOT_INDEXED not in coded for coded in headings]]


def assign_classes(sentences: DataFrame, codes: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Apply the rule in the module docstring to all sentences.

    Args:
        sentences: table with ``report``, ``index``, ``sentence``.
        codes: table with ``report``, ``code``, from
            :func:`trueneg.data.reports.open_i.image_codes`.

    Returns:
        A table with ``report``, ``index``, ``class`` of the sentences that have a class; and a
            table with the ``class`` and ``probability`` of every heading.
    """
    headings = coded_headings(codes)
    assigned = []
    for report, index, sentence in zip(
        sentences["report"], sentences["index"], sentences["sentence"], strict=True
    ):
        coded = headings.get(report, frozenset())
        name = NORMAL if coded == {NORMAL} else class_of(sentence, coded)
        if name is not None:
            assigned.append((report, index, name))
    share = headings.explode().value_counts() / len(headings)
    classes = share.rename_axis("class").reset_index(name="probability")
    return DataFrame(assigned, columns=["report", "index", "class"]), classes


def open_i_classes(
    sentences: str | Path, *, archive: str | Path | None, assigned: str | Path, classes: str | Path
) -> None:
    """Run :func:`assign_classes` as a pipeline step.

    Args:
        sentences: table written by :func:`trueneg.text.sentences.split_reports`.
        archive: as for :func:`trueneg.data.reports.open_i.find_archive`.
        assigned: parquet file to write: ``report``, ``index``, ``class``.
        classes: parquet file to write: ``class``, ``probability``.
    """
    table, restricted = privacy.read_table(sentences)
    rows, probabilities = assign_classes(table, image_codes(archive))
    log.info(
        f"{len(rows):,} of {len(table):,} sentences have a class ({rows['class'].nunique()}"
        " distinct)",
    )
    privacy.write_table(rows, assigned, restricted)
    privacy.write_table(probabilities, classes, restricted)
