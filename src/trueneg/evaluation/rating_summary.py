"""Summarise how well a study's objectives rank false negatives: means with intervals over anchors,
and one row per seed.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame

from trueneg.evaluation.human_ratings import calibration_error, mean_area
from trueneg.io.files import write_tables
from trueneg.store.records import read_rows
from trueneg.store.rows import IDENTITY, to_table

PLACE = ["study", "dataset", "objective", "variant"]
DIRECTIONS = {"text": "text to image", "image": "image to text"}  # by kind of anchor
RATED_ABOVE = "rated above {:g}"  # relevance criterion in rows
MEASURED = [*PLACE, "score", "anchors", "threshold"]
Files = Sequence[str | Path]


def gather_ratings(
    *,
    areas: Files,
    references: Files,
    bins: Files,
    captions: Files,
    correlated: Files,
    **outputs: str | Path,
) -> None:
    """Write the data for the figures and the table of the human ratings.

    Args:
        areas, bins: parquet files of :func:`trueneg.evaluation.rating_runs.of_run`, one per
            objective and block of seeds.
        references, captions, correlated: files of
            :func:`trueneg.evaluation.rating_runs.of_references`, one per block.
        outputs: parquet files to write: ``summary`` (:func:`summarised`); ``rows``
            (:func:`seed_rows`), used to pair objectives by seed; ``calibration``
            (:func:`calibrated`); ``eta`` and ``correlations``: the captions of each data set's
            first seed with their rates and η, and the correlations for the same seed.
    """
    ranked = _read([*areas, *references])
    tables = {
        "summary": summarised(ranked),
        "rows": seed_rows(ranked[ranked["objective"] != ""]),
        "calibration": calibrated(_read(bins)),
        "eta": _of_first_seed(_read(captions)),
        "correlations": _of_first_seed(_read(correlated)),
    }
    write_tables({outputs[name]: table for name, table in tables.items()})


def summarised(ranked: DataFrame) -> DataFrame:
    """Compute the mean within-anchor AUC of each objective's networks and each reference, with its
    interval over anchors.

    An anchor's AUC is the mean over seeds: the interval shows how the mean would vary with other
    anchors, not with other seeds.

    Args:
        ranked: one row per anchor and seed: study, dataset, objective, seed and the columns of
            :func:`trueneg.evaluation.rated_pairs.anchor_rows`.

    Returns:
        One row per (study, dataset, objective, variant, score, anchors, threshold): ``direction``
            and ``labels``, derived from ``anchors`` and ``threshold`` as in :func:`seed_rows`;
            ``seeds``, ``count`` (anchors), ``AUC``, ``low``, ``high``, and ``weighted AUC``,
            ``weighted low``, ``weighted high``, where all comparisons have equal weight.
    """
    rows = []
    for place, by_seed in ranked.groupby(MEASURED, sort=False):
        anchors = by_seed.groupby("anchor", as_index=False)[["area", "comparisons"]].mean()
        row: dict[str, Any] = dict(zip(MEASURED, place, strict=True))
        row |= {"seeds": by_seed["seed"].nunique(), "count": len(anchors)}
        # as in seed_rows
        row |= {
            "direction": DIRECTIONS[row["anchors"]],
            "labels": RATED_ABOVE.format(row["threshold"]),
        }
        for prefix, weighted in (("", False), ("weighted ", True)):
            # With few images, a high threshold can leave a single anchor, which has no interval.
            ends = (
                mean_area(anchors, seed=0, weighted=weighted)
                if len(anchors) > 1
                else (anchors["area"].item(), np.nan, np.nan)
            )
            row |= dict(zip((f"{prefix}AUC", f"{prefix}low", f"{prefix}high"), ends, strict=True))
        rows.append(row)
    return DataFrame(rows)


def seed_rows(ranked: DataFrame) -> DataFrame:
    """Return tidy rows with each seed's mean within-anchor AUC.

    Args:
        ranked: see :func:`summarised`.
    """
    by_seed = ranked.groupby([*IDENTITY, "anchors", "threshold"], sort=False)["area"]
    means = by_seed.mean().rename("value").reset_index()
    return to_table(
        means.assign(
            split="test",
            task="human ratings",
            metric="AUC",
            labels=means["threshold"].map(RATED_ABOVE.format),
            direction=means["anchors"].map(DIRECTIONS),
        )
    )


def calibrated(bins: DataFrame) -> DataFrame:
    """Average implied and rated shares over seeds.

    Args:
        bins: one row per bin and seed.

    Returns:
        One row per (study, dataset, objective, anchors, bin): ``pairs``, ``implied``, ``rated``,
            ``seeds``, and ``error``, the mean over seeds of the expected calibration error over all
            bins.
    """
    keys = [*PLACE, "anchors"]
    shown = ["pairs", "implied", "rated"]
    errors = bins.assign(error=0.0)
    if len(bins):
        by_seed = bins.groupby([*keys, "seed"], sort=False)[shown]
        errors = by_seed.apply(calibration_error).rename("error").reset_index()
    by_objective = errors.groupby(keys, sort=False)
    errors = by_objective.agg(error=("error", "mean"), seeds=("seed", "nunique")).reset_index()
    shares = bins.groupby([*keys, "bin"], sort=False)[shown].mean().reset_index()
    return shares.merge(errors, on=keys)


def _read(paths: Files) -> DataFrame:
    tables = [read_rows(path, IDENTITY) for path in paths]
    # Skip empty tables (objectives that imply no probability), because their columns have no types.
    return pd.concat([table for table in tables if len(table)] or tables[:1], ignore_index=True)


def _of_first_seed(table: DataFrame) -> DataFrame:
    return table[table["seed"] == table.groupby("dataset")["seed"].transform("min")].reset_index(
        drop=True
    )
