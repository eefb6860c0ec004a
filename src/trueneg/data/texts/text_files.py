"""What the modules of text sources share: their files, rated pairs, and which texts a likelihood
study may score.
"""

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from trueneg.data.table_formats import plain
from trueneg.data.tables import Rows, read_columns
from trueneg.data.texts.text_source import RATED, TextSource
from trueneg.errors import UserError
from trueneg.io.files import UserFiles
from trueneg.text.cleaning import normalised

log = logging.getLogger(__name__)


def source_of(settings: Mapping[str, Any], table: pd.DataFrame, skipped: str) -> TextSource:
    """Return a source, with the rated pairs of the settings; hard negatives have no label.

    Args:
        settings: ``source``, and optionally ``restricted`` and ``rated``.
        table: ``split`` (as in :class:`~trueneg.data.texts.text_source.TextSource`), ``label`` (its
            name; empty: none), then one column of texts, or those of anchors, positives and hard
            negatives.
        skipped: a sentence about the rows left out; empty if none.
    """
    names, columns = sorted(set(table["label"]) - {""}), table.columns[2:]
    classes = pd.Index(names).get_indexer(table["label"])  # empty: -1
    labels = [classes, classes, *[-1] * len(columns)]
    of_columns = [
        {"sentence": table[name], "class": label, "split": table["split"]}
        for name, label in zip(columns, labels, strict=False)
    ]
    sentences, pairs = (
        pd.concat(map(pd.DataFrame, of_columns), ignore_index=True),
        np.empty((0, 2), np.int64),
    )
    if len(columns) > 1:
        # in order of first appearance
        numbers = sentences.groupby(list(sentences), sort=False).ngroup().to_numpy(np.int64)
        sentences, pairs = (
            sentences.drop_duplicates(ignore_index=True),
            np.stack(np.split(numbers, len(columns)), axis=1),
        )
    restricted, rated = settings.get("restricted", False), _read_rated(settings)
    texts = pd.DataFrame(
        {"sentence": pd.concat([rated["first"], rated["second"]]), "class": -1, "split": "rated"}
    )
    first = len(sentences) + np.arange(len(rated))
    sentences = pd.concat([sentences, texts], ignore_index=True).astype({"class": np.int64})
    rated = rated.assign(first=first, second=first + len(rated))
    return TextSource(
        settings["source"], sentences, pairs, tuple(names), rated, restricted, skipped
    )


def label_sets(names: Sequence[str], settings: Mapping[str, Any] | None) -> list[np.ndarray]:
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
        asked = f"train, validation_unseen and test_unseen add up to {sum(sizes)} labels"
        raise UserError(
            f"dataset.labels: {asked}; expected at most the {len(names)} labels of the texts; lower"
            " them."
        )
    return np.split(
        np.random.default_rng(settings["seed"]).permutation(len(names)), np.cumsum(sizes)
    )[:3]


@dataclass(frozen=True)
class TextFiles:
    """The functions of a module of a text source, given the one that reads the source and a
    description of its file.
    """

    read_source: Callable[[Mapping[str, Any]], TextSource]
    path: str = "your file of texts"

    def read_texts(self, settings: Mapping[str, Any]) -> pd.DataFrame:
        """Return the texts whose likelihoods a study may use: those of training labels, without
        official held-out texts.

        Args:
            settings: settings of the likelihood study's texts; ``labels`` are the sets of labels;
                None: all are trained on.

        Returns:
            One row per text: ``report``, ``patient`` and ``text``. Texts that are equal after
                normalisation share the first two,
            so that no language model scores a text that it was trained on.
        """
        source = self.read_source(settings)
        if source.skipped:
            log.warning("%s: %s", settings["path"], source.skipped)
        numbers = (
            label_sets(source.label_names, settings["labels"])[0] if source.label_names else [-1]
        )
        is_training = (
            np.isin(source.labels, numbers)
            & source.sentences["split"].isin(["", "train"])[source.anchors].to_numpy()
        )
        texts = source.sentences["sentence"].iloc[
            (source.pairs if len(source.pairs) else source.anchors)[is_training].ravel()
        ]
        group = texts.map(lambda text: hashlib.sha256(normalised(text).encode()).hexdigest()[:16])
        return pd.DataFrame({"report": group, "patient": group, "text": texts})

    def check_table(self, settings: Mapping[str, Any]) -> str:
        """Check every row if the files exist; return a sentence about what is left out (empty if
        nothing).
        """
        return "" if self.missing_files(settings) else self.read_source(settings).skipped

    def user_files(self, settings: Mapping[str, Any]) -> UserFiles:
        """Return the files of a source."""
        return UserFiles(list(_paths(settings).values()))

    def missing_files(self, settings: Mapping[str, Any]) -> list[str]:
        """Report which files are missing."""
        section = "dataset" if "positives" in settings else "reports"
        missing = {key: path for key, path in _paths(settings).items() if not path.exists()}
        return [
            f"{section}.{key}, {path}: {self.path if key == 'path' else TextFiles.path}"
            for key, path in missing.items()
        ]


def require_distinct(columns: Sequence[str]) -> None:
    """Refuse a column that is used for several purposes."""
    if len(set(map(plain, columns))) < len(columns):
        raise UserError(
            f"dataset: the columns are {', '.join(columns)}; expected a different column for each"
            " purpose."
        )


def _paths(settings: Mapping[str, Any]) -> dict[str, Path]:
    """Return the files of a source by the name of their setting."""
    rated = settings.get("rated") or {}
    named = {
        "path": settings["path"],
        "test_path": settings.get("test_path"),
        "rated.path": rated.get("path"),
    }
    return {key: Path(path).expanduser() for key, path in named.items() if path}


def _read_rated(settings: Mapping[str, Any]) -> pd.DataFrame:
    """Read any table of rated pairs: texts ``first`` and ``second``, and ``score``; a mistake is
    named by file and line.
    """
    if not (rated := settings.get("rated")):
        return pd.DataFrame(columns=list(RATED))
    columns, restricted = (
        [rated[f"{name}_column"] for name in RATED],
        settings.get("restricted", False),
    )
    require_distinct(columns)
    table = read_columns(rated["path"], columns, texts=columns[:2], restricted=restricted)
    rows = Rows(
        rated["path"],
        table.apply(lambda cells: cells.str.split().str.join(" ")),
        {"restricted": restricted},
    )
    for column in columns[:2]:
        rows.check(
            column, lambda texts: texts.map(plain) == "", "a text; fill it in, or remove the row"
        )
    rows.check(
        columns[2], lambda scores: ~np.isfinite(pd.to_numeric(scores, errors="coerce")), "a number"
    )
    usable = rows.usable()[0][columns].set_axis(list(RATED), axis=1).astype({"score": float})
    if usable["score"].nunique() < 2:
        raise UserError(
            f"{rated['path']}: all scores in {columns[2]} are equal; expected at least two"
            " different ones."
        )
    return usable
