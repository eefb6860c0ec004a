"""The candidates of a selection: each one's mean on the validation split, with its interval, and
which one is best; and the best of several objectives, without the gain that choosing it feigns.
"""

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
DECIMALS = 12  # two means of the same fractions may differ in their last bits


def describe_candidates(
    rows: pd.DataFrame, candidates: Mapping[str, Sequence[str]], measured: Measurement
) -> pd.DataFrame:
    """Compute each candidate's mean on the validation split and its 95 % t interval over the seeds
    that all candidates of its objective share.

    Args:
        rows: tidy rows of the candidates; only those whose split is ``"validation"`` are read.
        candidates: variants of each objective.
        measured: measurement to compare them by.

    Returns:
        One row per data set, objective and candidate, in the given order, with the columns
            :data:`CANDIDATE`; ``chosen`` marks the first candidate of each, and ``tied`` none.

    Raises:
        ValueError: if a candidate was not measured, or the candidates of an objective share no
            seed.
    """
    tables = [pd.DataFrame(columns=CANDIDATE)]
    validation = measured.rows_of(rows[rows["split"] == "validation"])
    for dataset in rows["dataset"].unique():
        for objective, variants in candidates.items():
            tried = validation[
                (validation["dataset"] == dataset)
                & (validation["objective"] == objective)
                & validation["variant"].isin(variants)
            ]
            if absent := set(variants).difference(tried["variant"]):
                raise ValueError(
                    f"{dataset}: the rows contain no {measured.task} {measured.metric} of"
                    f" {objective} on the validation split with {', '.join(sorted(absent))}."
                )
            shared = tried[tried.groupby("seed")["variant"].transform("nunique") == len(variants)]
            if shared.empty:
                raise ValueError(
                    f"{dataset}: the variants of {objective} ({', '.join(variants)}) have no seed"
                    " in common; expected at least one. Finish their runs."
                )
            by_variant = means(shared.assign(objective=shared["variant"])).set_index("objective")
            table = by_variant.loc[list(variants)].reset_index(names="variant")
            is_first = table.index == 0
            table = table.assign(dataset=dataset, objective=objective, chosen=is_first, tied=False)
            tables.append(table[CANDIDATE])
    return pd.concat(tables[1:] or tables, ignore_index=True)


def select(
    rows: pd.DataFrame, candidates: Mapping[str, Sequence[str]], measured: Measurement
) -> pd.DataFrame:
    """Choose the candidate of each objective with the largest mean, or the first of several.

    Args:
        rows, candidates, measured: as for :func:`describe_candidates`.

    Returns:
        The table of :func:`describe_candidates`, in which ``chosen`` marks the best candidates, and
            ``tied`` others with the same mean.
    """
    table = describe_candidates(rows, candidates, measured)
    rounded = table["mean"].round(DECIMALS)
    best = rounded.groupby([table["dataset"], table["objective"]]).transform("idxmax")
    is_best = table.index == best
    distance = np.abs(table["mean"] - table["mean"][best].to_numpy())
    return table.assign(chosen=is_best, tied=(distance <= 10.0**-DECIMALS) & ~is_best)


def cross_fitted(rows: pd.DataFrame, objectives: Sequence[str]) -> pd.DataFrame:
    """Return the rows of the best of several objectives: in each half of the seeds, those of the
    objective with the largest mean over the other half. No seed that is measured was used to
    choose, so the best of objectives that are equal on the test samples is no better than they are;
    seeds that share test samples share what these favour.

    Args:
        rows: tidy rows of one measurement on one data set, one variant per objective.
        objectives: objectives to choose from; only seeds that all of them have are used.

    Returns:
        Tidy rows of the objective ``"best"``; ``chosen`` names the objective of each. There are
            none with fewer than two seeds.
    """
    values = rows.pivot(index="seed", columns="objective", values="value")[[*objectives]].dropna()
    half = np.arange(len(values)) % 2
    best = {side: values[half != side].mean().idxmax() for side in set(half) if len(values) > 1}
    chosen = pd.Series([best.get(side) for side in half], values.index, dtype=object)
    of_best = rows[rows["objective"] == rows["seed"].map(chosen)]
    return of_best.assign(chosen=of_best["objective"], objective="best")
