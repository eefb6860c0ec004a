"""Retrieval in rows: which settings and list lengths there are, and what is the mean of both directions."""

import pandas as pd

from trueneg.stats.comparison import KEYS

DIRECTIONS = ("text to image", "image to text")
SENTENCES, PRECISION, CHEXPERT = "retrieval sentence", "precision", "chexpert 8x200"
BY_TRUTH, BY_REPORT = "relevant=truth", "relevant=report"


def lengths(rows: pd.DataFrame) -> list[int]:
    """The k of R@k that the rows hold, ascending.

    Example:
        >>> lengths(pd.DataFrame({"metric": ["text to image R@10", "text to image R@5", "MedR"]}))
        [5, 10]
    """
    found = rows["metric"].str.extract(r" R@(\d+)$")[0].dropna()
    return sorted(set(found.astype(int)))


def sentence_setting(rows: pd.DataFrame) -> str | None:
    """Which relevance stands for the retrieval of sentences: the truth, where it is known; None without retrieval."""
    settings = set(rows.loc[rows["task"] == SENTENCES, "setting"])
    return next((setting for setting in (BY_TRUTH, BY_REPORT) if setting in settings), None)


def with_means(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, with the mean of both directions at each k, and the mean over k in each direction.

    ``"R@10"`` is the mean of ``"text to image R@10"`` and ``"image to text R@10"``; ``"text to image Recall"`` that over all k of
    that direction (the rows' own ``"Recall"`` is the mean over both). Likewise for ``Prec@10`` and ``Prec``, whose directions are
    settings.

    Args:
        rows: tidy rows, those of other tasks too.
    """
    recalls = rows[rows["metric"].str.fullmatch(r"(text to image|image to text) R@\d+")]
    direction, at_k = (recalls["metric"].str.rsplit(" ", n=1).str[part] for part in (0, 1))
    precisions = rows[rows["task"].isin((PRECISION, CHEXPERT)) & rows["metric"].str.fullmatch(r"Prec@\d+")]
    return pd.concat(
        [
            rows,
            _means(recalls.assign(metric=at_k)),
            _means(recalls.assign(metric=direction + " Recall")),
            _means(precisions.assign(setting="")),
            _means(precisions.assign(metric="Prec")),
        ],
        ignore_index=True,
    )


def _means(rows: pd.DataFrame) -> pd.DataFrame:
    """Of the rows that have become one measurement, within each run."""
    return rows.groupby([*KEYS, "objective", "seed"], sort=False, as_index=False)["value"].mean()
