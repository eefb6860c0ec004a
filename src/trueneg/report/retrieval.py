"""Retrieval in rows: which list lengths there are, and the means over both directions and over list lengths."""

from typing import Any

import pandas as pd

from trueneg.store.rows import COLUMNS, typed

DIRECTIONS = ("text to image", "image to text")
SENTENCES, PRECISION, CHEXPERT = "retrieval sentence", "precision", "chexpert 8x200"


def lengths(rows: pd.DataFrame, metric: str = "R") -> list[int]:
    """The k of R@k (or Prec@k) that the rows hold, ascending."""
    return sorted(set(rows.loc[rows["metric"] == metric, "k"].dropna().astype(int)))


def sentence_labels(rows: pd.DataFrame) -> str | None:
    """Which relevance stands for the retrieval of sentences: the truth, where it is known; None without retrieval."""
    known = set(rows.loc[rows["task"] == SENTENCES, "labels"])
    return next((labels for labels in ("truth", "report") if labels in known), None)


def with_means(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, with the mean of both directions at each k, and the mean over k in each direction, of R and Prec of all labels.

    The mean over both is in the rows already.

    Args:
        rows: tidy rows, those of other tasks too.
    """
    at_k: Any = rows[rows["metric"].isin(("R", "Prec")) & rows["k"].notna() & rows["group"].isna()]
    return pd.concat([rows, _means(at_k.assign(direction=None)), _means(at_k.assign(k=pd.NA))], ignore_index=True)


def _means(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the rows that have become one measurement, within each run."""
    names = [column for column in COLUMNS if column != "value"]
    of_runs: Any = typed(rows).groupby(names, sort=False, as_index=False, dropna=False)
    return of_runs["value"].mean()
