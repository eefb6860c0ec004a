"""The candidates of a selection: each one's mean on the validation split, with its interval."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from trueneg.stats.comparison import means
from trueneg.stats.measurement import Measurement

CANDIDATE = [
    "dataset",
    "objective",
    "variant",
    "seeds",
    "mean",
    "standard deviation",
    "low",
    "high",
    "runs",
    "chosen",
    "tied",
]
ROUNDING = 1e-12  # two means of the same fractions may differ in their last bits


def describe_candidates(
    rows: pd.DataFrame,
    candidates: Mapping[str, Sequence[str]],
    measured: Measurement,
    selection: pd.DataFrame,
) -> pd.DataFrame:
    """Compute each candidate's mean on the validation split and its 95 % t interval over the seeds
    that all candidates share.

    Args:
        rows: tidy rows of the candidates; only those whose split is ``"validation"`` are read.
        candidates: variants to choose from, by objective.
        measured: measurement used for the selection.
        selection: result of :func:`trueneg.stats.comparison.select` for the same arguments.

    Returns:
        One row per candidate of each data set and objective with several, in the given order, with
            the columns
        :data:`CANDIDATE`; ``tied`` marks other candidates with the same mean as the chosen one.
    """
    validation = measured.rows_of(rows[rows["split"] == "validation"])
    tables = []
    several = selection.loc[selection["candidates"] > 1, ["dataset", "objective", "variant"]]
    for dataset, objective, best in several.itertuples(index=False):
        variants = list(candidates[objective])
        tried = validation[
            (validation["dataset"] == dataset) & (validation["objective"] == objective)
        ]
        tried = tried[tried["variant"].isin(variants)]
        shared = tried[tried.groupby("seed")["variant"].transform("nunique") == len(variants)]
        by_variant = means(shared.assign(objective=shared["variant"])).set_index("objective")
        table = by_variant.loc[variants]
        is_best = table.index == best
        is_tied = np.isclose(table["mean"], table["mean"][best], rtol=0, atol=ROUNDING) & ~is_best
        table = table.reset_index(names="variant").assign(
            dataset=dataset, objective=objective, chosen=is_best, tied=is_tied
        )
        tables.append(table[CANDIDATE])
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=CANDIDATE)
