"""Retrieval rows: the list lengths they contain, and their means over directions and over list lengths."""

from typing import Any

import pandas as pd

from trueneg.store.rows import COLUMNS, typed

DIRECTIONS = ("text to image", "image to text")
SENTENCES, REGIONS = "retrieval sentence", "region retrieval"
PRECISION, CHEXPERT = "precision", "chexpert 8x200"


def lengths(rows: pd.DataFrame, metric: str = "R") -> list[int]:
    """Return the values of k for which the rows contain R@k (or Prec@k), in ascending order."""
    return sorted(set(rows.loc[rows["metric"] == metric, "k"].dropna().astype(int)))


def sentence_labels(rows: pd.DataFrame) -> str | None:
    """Return the relevance used for sentence retrieval: the ground truth if it is known; None if there is no such retrieval."""
    known = set(rows.loc[rows["task"] == SENTENCES, "labels"])
    return next((labels for labels in ("truth", "report") if labels in known), None)


def with_means(rows: pd.DataFrame) -> pd.DataFrame:
    """Add the means of R and Prec over both directions at each k, and over k in each direction, skipping rows of single labels.

    The rows already contain the mean over directions and k.

    Args:
        rows: tidy rows; they may include other tasks.
    """
    at_k: Any = rows[rows["metric"].isin(("R", "Prec")) & rows["k"].notna() & rows["group"].isna()]
    names = [column for column in COLUMNS if column != "value"]
    # Rows that differ only in the direction, or only in k, become the same measurement of a run.
    pooled: Any = [typed(at_k.assign(direction=None)), typed(at_k.assign(k=pd.NA))]
    means = [part.groupby(names, sort=False, as_index=False, dropna=False)["value"].mean() for part in pooled]
    return pd.concat([rows, *means], ignore_index=True)
