"""What the modules of text sources share: their files, rated pairs, and which texts a likelihood
study may score.
"""

import hashlib
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy import ndarray
from pandas import DataFrame

from trueneg.data.cells import is_missing, lists_texts
from trueneg.data.tables import ONE_TEXT, Rows, read_columns, require_distinct, single_spaced
from trueneg.data.texts.text_source import RATED, TextSource
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.specs.sections import Section
from trueneg.text.cleaning import normalised

log = logging.getLogger(__name__)


def source_of(
    settings: Section,
    table: DataFrame,
    skipped: str,
    positives: int = 1,
    corpus: Sequence[str] = (),
) -> TextSource:
    """Return a source, with the rated pairs of the settings; hard negatives have no label.

    Args:
        settings: ``source``, and optionally ``restricted`` and ``rated``.
        table: ``split`` (as in :class:`~trueneg.data.texts.text_source.TextSource`), ``label`` (its
            name; empty: none), optionally ``group``, then one column of texts, or those of anchors,
            positives and hard negatives, of which all but the first positive may be missing.
        skipped: a sentence about the rows left out; empty if none.
        positives: number of columns of positives.
        corpus: texts that retrieval searches beside the positives.
    """
    names = sorted(set(table["label"]) - {""})
    about = table.columns.intersection(["split", "group"])
    columns = table.columns.drop([*about, "label"])
    classes = pd.Index(names).get_indexer(table["label"])  # empty: -1
    present = table[columns].notna().to_numpy()
    of_columns = [
        table[about]
        .assign(**{"sentence": table[name], "class": classes if place <= positives else -1})
        .loc[present[:, place]]
        for place, name in enumerate(columns)
    ]
    sentences = pd.concat(of_columns, ignore_index=True)[["sentence", "class", *about]]
    pairs = np.empty((0, 2), np.int64)
    if len(columns) > 1:
        # in order of first appearance
        numbers = sentences.groupby(list(sentences), sort=False).ngroup().to_numpy(np.int64)
        sentences = sentences.iloc[np.unique(numbers, return_index=True)[1]]
        pairs = np.empty(present.shape, np.int64)
        pairs.T[present.T] = numbers
        # what stands for missing positives and hard negatives
        stands_in = np.where(np.arange(len(columns)) <= positives, min(positives, 1), 0)
        pairs = np.where(present, pairs, pairs[:, stands_in])
    restricted = settings.get("restricted", False)
    rated = _read_rated(settings)
    both = pd.concat([rated["first"], rated["second"]])
    searched = DataFrame({"sentence": list(corpus), "class": -1, "split": "corpus"})
    texts = DataFrame({"sentence": both, "class": -1, "split": "rated"})
    first = len(sentences) + len(searched) + np.arange(len(rated))
    sentences = pd.concat([sentences, searched, texts], ignore_index=True)
    sentences = sentences.astype({"class": np.int64})
    rated = rated.assign(first=first, second=first + len(rated))
    return TextSource(
        settings["source"],
        sentences,
        pairs,
        tuple(names),
        rated,
        restricted,
        skipped,
        positives=positives,
    )


def source_of_rows(
    settings: Section, rows: DataFrame, skipped: str, corpus: Sequence[str] = ()
) -> TextSource:
    """Return a source, as :func:`source_of` does, of rows whose ``positives`` and ``negatives`` are
    lists of texts.
    """
    names = ["positives", "negatives"]
    positives, negatives = (
        DataFrame(dict(enumerate(itertools.zip_longest(*rows[name]))), rows.index).add_prefix(name)
        for name in names
    )
    about = rows.drop(columns=["text", *names])
    table = pd.concat([about, rows["text"], positives, negatives], axis=1)
    return source_of(settings, table, skipped, positives.shape[1], corpus)


def label_sets(names: Sequence[str], settings: Section | None) -> list[ndarray]:
    """Draw the labels to train on, those of ``validation_unseen`` and of ``test_unseen``, as
    numbers; by default, train on all.

    Args:
        names: names of all labels, sorted.
        settings: the data set's section ``labels``.

    Raises:
        UserError: if there are too few labels.
    """
    if not settings:
        return [np.arange(len(names)), *np.empty((2, 0), np.int64)]
    sizes = [settings[key] for key in ("train", "validation_unseen", "test_unseen")]
    if sum(sizes) > len(names):
        raise UserError(
            f"dataset.labels: train, validation_unseen and test_unseen add up to {sum(sizes)}"
            f" labels; expected at most the {len(names)} labels of the texts; lower them."
        )
    drawn = np.random.default_rng(settings["seed"]).permutation(len(names))
    return np.split(drawn, np.cumsum(sizes))[:3]


@dataclass(frozen=True)
class TextFiles:
    """The functions of a module of a text source, given the one that reads the source and a
    description of its file.
    """

    read_source: Callable[[Section], TextSource]
    path: str = "your file of texts"

    def read_texts(self, settings: Section) -> DataFrame:
        """Return the texts whose likelihoods a study may use: those of training labels, without
        official held-out texts.

        Args:
            settings: settings of the likelihood study's texts; ``labels`` are the sets of labels;
                None: all are trained on.

        Returns:
            One row per text: ``report``, ``patient`` and ``text``. Texts that are equal after
                normalisation share the first two, so that no language model scores a text that it
                was trained on.
        """
        source = self.read_source(settings)
        if source.skipped:
            log.warning(f"{settings['path']}: {source.skipped}")
        numbers: Any = [-1]
        if source.label_names:
            numbers = label_sets(source.label_names, settings["labels"])[0]
        is_open = source.sentences["split"].isin(["", "train"]).to_numpy()[source.anchors]
        chosen = source.rows[np.isin(source.labels, numbers) & is_open].ravel()
        texts = source.sentences["sentence"].iloc[chosen]
        group = texts.map(lambda text: hashlib.sha256(normalised(text).encode()).hexdigest()[:16])
        return DataFrame({"report": group, "patient": group, "text": texts})

    def check_table(self, settings: Section) -> str:
        """Check every row if the files exist; return a sentence about what is left out (empty if
        nothing).
        """
        return "" if self.missing_files(settings) else self.read_source(settings).skipped

    def user_files(self, settings: Section) -> UserFiles:
        """Return the files of a source."""
        return UserFiles(list(_paths(settings).values()))

    def missing_files(self, settings: Section) -> list[str]:
        """Report which files are missing."""
        section = "dataset" if "positives" in settings else "reports"
        return [
            f"{section}.{key}, {path}: {self.path if key == 'path' else TextFiles.path}"
            for key, path in _paths(settings).items()
            if not path.exists()
        ]


def _paths(settings: Section) -> dict[str, Path]:
    """Return the files of a source by the name of their setting."""
    rated = settings.get("rated") or {}
    named = {
        "path": settings["path"],
        "test_path": settings.get("test_path"),
        "rated.path": rated.get("path"),
    }
    return {key: Path(path).expanduser() for key, path in named.items() if path}


def _read_rated(settings: Section) -> DataFrame:
    """Read any table of rated pairs: texts ``first`` and ``second``, and ``score``; a mistake is
    named by file and line.
    """
    if not (rated := settings.get("rated")):
        return DataFrame(columns=list(RATED))
    columns = [rated[f"{name}_column"] for name in RATED]
    restricted = settings.get("restricted", False)
    require_distinct("dataset", columns)
    first, second, score = columns
    table = read_columns(rated["path"], columns, texts=[first, second], restricted=restricted)
    rows = Rows(rated["path"], table.apply(single_spaced), {"restricted": restricted})
    for text in (first, second):
        rows.check(text, rows[text].map(is_missing), "a text; fill it in, or remove the row")
        rows.check(text, rows[text].map(lists_texts), ONE_TEXT)
    rows.check(score, ~np.isfinite(pd.to_numeric(rows[score], errors="coerce")), "a number")
    usable = rows.usable()[0][columns].set_axis(list(RATED), axis=1).astype({"score": float})
    if usable["score"].nunique() < 2:
        raise UserError(
            f"{rated['path']}: all scores in {score} are equal; expected at least two different"
            " ones."
        )
    return usable
