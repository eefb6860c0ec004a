"""Hard negatives of texts in a table of images: images that have rows of their own."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame, Series

from trueneg.data.tables import Rows, about_missing, first_places
from trueneg.errors import UserError
from trueneg.legible import counted
from trueneg.specs.pairs.image_table import OWN_LOOP
from trueneg.text.cleaning import normalised


def refuse_others(rows: Rows, columns: Sequence[str], named: Series, images: Series) -> None:
    """Check that some of the hard negatives are images of the table.

    Args:
        rows: the table.
        columns: the columns that name hard negatives.
        named: the names in these columns, a list per row.
        images: the image of each row.

    Raises:
        UserError: if none of them is, as where the columns have captions.
    """
    found = set(itertools.chain(*named))
    if not found.isdisjoint(images):
        return
    example = "" if rows.restricted or not found else f", such as {min(found)!r}"
    raise UserError(
        f"{rows.file}: the columns in dataset.negative_image_columns, {', '.join(columns)}, name"
        f" {counted(len(found), 'image')}{example}, none of which is the image of a row;"
        " expected images that have rows of their own; correct the columns, or remove the setting."
        f" For hard negative captions, {OWN_LOOP}."
    )


def usable_negatives(texts: DataFrame, named: Series) -> tuple[Series, list[str]]:
    """Leave out hard negatives that have no row of their own, or show their text in some row.

    Args:
        texts: table with one row per text: ``report`` (its image) and ``text``.
        named: the images that are hard negatives of each text.

    Returns:
        The others of each text; and sentences about those left out, and about texts with fewer than
            others.

    Example:
        >>> texts = DataFrame({"report": ["a", "b"], "text": ["A dog.", "A cat."]})
        >>> usable_negatives(texts, Series([["b", "c"], ["a"]]))[0].tolist()
        [['b'], ['a']]
    """
    forms = texts["text"].map(normalised)
    images = set(texts["report"])
    shown = set(zip(texts["report"], forms, strict=True))
    kinds: dict[str, Callable[[str, str], bool]] = {
        "that are the image of no row": lambda name, form: name not in images,
        "that show their text": lambda name, form: (name, form) in shown,
    }
    sentences = []
    for kind, is_of_kind in kinds.items():
        kept = Series(
            [
                [name for name in names if not is_of_kind(name, form)]
                for names, form in zip(named, forms, strict=True)
            ],
            texts.index,
        )
        left_out = named.str.len() - kept.str.len()
        if left_out.any():
            places = first_places(left_out[left_out > 0])
            sentences.append(f"Hard negatives {kind} are left out: {left_out.sum():,} ({places}).")
        named = kept
    return named, [*sentences, about_missing(named.str.len())]


def listed_negatives(texts: DataFrame) -> DataFrame:
    """Return one row per hard negative (``negative``) of a text, which has a number (``index``)
    among those of its image (``report``).
    """
    index = texts.groupby("report").cumcount()
    negatives = texts.assign(index=index, negative=texts["negatives"]).explode("negative")
    return negatives[["report", "index", "negative"]].dropna()


def lost_negatives(reports: ndarray, negatives: DataFrame | None) -> str:
    """Return a sentence about hard negatives of the used images that are images that are not used,
    such as unreadable ones; empty if there are none. The arguments are those of
    :func:`join_negatives`.
    """
    if negatives is None:
        return ""
    lost = negatives["report"].isin(reports) & ~negatives["negative"].isin(reports)
    return (
        f"Hard negatives whose image is left out are left out, too: {lost.sum():,}."
        if lost.any()
        else ""
    )


def join_negatives(
    sentences: DataFrame, reports: ndarray, negatives: DataFrame | None
) -> ndarray | None:
    """Join the hard negatives of sentences into ``negatives`` of a
    :class:`~trueneg.data.pairs.pair_source.PairSource`.

    Args:
        sentences: of :func:`~trueneg.data.pairs.pair_source.join_sentences`.
        reports: str, shape (n,): the report of each image; each has one image.
        negatives: table with ``report``, ``index``, ``negative``; images that are not among the n
            are left out. None: there are none.

    Example:
        >>> sentences = DataFrame({"report": ["a", "b"], "index": [0, 0]})
        >>> negatives = DataFrame({"report": ["b"], "index": [0], "negative": ["a"]})
        >>> join_negatives(sentences, np.array(["a", "b"]), negatives).tolist()
        [[-1], [0]]
    """
    if negatives is None:
        return None
    keys = ["report", "index"]
    image = negatives["negative"].map(Series(range(len(reports)), reports))
    listed = negatives[keys].assign(image=image).dropna()
    sentence = pd.MultiIndex.from_frame(sentences[keys])
    rows = sentence.get_indexer(pd.MultiIndex.from_frame(listed[keys]))
    places = listed.groupby(keys).cumcount().to_numpy()
    padded = np.full((len(sentences), places.max(initial=-1) + 1), -1)
    has_sentence = rows >= 0  # of an image that is not left out
    padded[rows[has_sentence], places[has_sentence]] = listed["image"][has_sentence]
    return padded
