"""Retrieval rows: the list lengths they contain, and their means over directions and over list lengths."""

from typing import Any

import pandas as pd

from trueneg.store.rows import COLUMNS, typed

DIRECTIONS = ("text to image", "image to text")
SENTENCES, PRECISION, CHEXPERT = "retrieval sentence", "precision", "chexpert 8x200"


def lengths(rows: pd.DataFrame, metric: str = "R") -> list[int]:
    """Return the values of k for which the rows contain R@k (or Prec@k), in ascending order."""
    return sorted(set(rows.loc[rows["metric"] == metric, "k"].dropna().astype(int)))


def sentence_labels(rows: pd.DataFrame) -> str | None:
    """Return the relevance used for sentence retrieval: the ground truth if it is known; None without sentence retrieval."""
    known = set(rows.loc[rows["task"] == SENTENCES, "labels"])
    return next((labels for labels in ("truth", "report") if labels in known), None)


def with_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the means of R and Prec over both directions at each k, and over k in each direction, for all labels together.

    The rows already contain the mean over both.

    Args:
        rows: tidy rows; they may include other tasks.
    """
    at_k: Any = rows[rows["metric"].isin(("R", "Prec")) & rows["k"].notna() & rows["group"].isna()]
    return pd.concat([rows, _means(at_k.assign(direction=None)), _means(at_k.assign(k=pd.NA))], ignore_index=True)


def _means(rows: pd.DataFrame) -> pd.DataFrame:
    """Average the rows that have become the same measurement, within each run."""
    names = [column for column in COLUMNS if column != "value"]
    of_runs: Any = typed(rows).groupby(names, sort=False, as_index=False, dropna=False)
    return of_runs["value"].mean()
