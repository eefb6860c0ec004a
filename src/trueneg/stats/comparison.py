"""Paired differences over seeds, selection on the validation split, and the gate that tells whether a study is informative.

All objectives with the same seed share the subset, split, initial weights, batch order and augmentation draws, so they are
compared by their differences within each seed. All functions take tidy rows with the columns :data:`COLUMNS`, one measured value
per row; intervals are over seeds, not over test images.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy

from trueneg.stats.measurement import KEYS as MEASURED
from trueneg.stats.measurement import Measurement, with_value

# Columns that must match for two rows to be comparable.
KEYS = ["study", "dataset", "split", *MEASURED]
COLUMNS = [*KEYS, "objective", "variant", "seed", "run", "value"]

GATE = [
    *("study", "dataset", "seeds", "baseline mean", "baseline low", "baseline high"),
    *("chance", "difference", "low", "high", "above chance", "oracle wins", "passed"),
]

CONFIDENCE = 0.95  # level of all intervals
# Detectable difference in standard errors: 80 % power in a two-sided test at 5 %, z(0.975) + z(0.8).
DETECTABLE = 2.8


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean over seeds and its 95 % t interval for every objective and measurement.

    Args:
        rows: tidy rows, one variant per objective.

    Returns:
        One row per :data:`KEYS` and objective in order of appearance, with ``seeds`` (number of seeds), ``mean``, ``standard
        deviation``, ``runs`` (run ids, separated by spaces), ``low`` and ``high``. With one seed, the interval and the standard
        deviation are NaN.

    Raises:
        ValueError: if a value is not finite, or a measurement appears twice.
    """
    found = _over_seeds(
        _checked(rows),
        {"seeds": ("value", "count"), "mean": ("value", "mean"), "standard deviation": ("value", "std"), "runs": ("run", _ids)},
    )
    return _with_interval(found, "mean")


def paired_differences(rows: pd.DataFrame, baseline: str, objectives: Sequence[str] | None = None) -> pd.DataFrame:
    r"""Compare objectives with the baseline within each seed: mean difference, paired 95 % t interval and tests.

    .. math::
        \bar d \pm t_{n-1} \frac{s_d}{\sqrt n}, \qquad \text{smallest detectable} = 2.8 \frac{s_d}{\sqrt n}

    A two-sided test at 5 % detects the smallest detectable difference with a power of 80 %. This uses the normal
    approximation, which is too optimistic below about ten seeds.

    Args:
        rows: tidy rows, one variant per objective.
        baseline: the objective to subtract.
        objectives: objectives to compare; default: all except the baseline, in order of appearance.

    Returns:
        One row per :data:`KEYS` and objective with ``seeds`` (the number of seeds both have; others are ignored), ``mean``,
        ``baseline mean``, ``difference``, ``standard deviation`` (of the differences), ``p signed-rank`` (exact), ``runs`` and
        ``baseline runs`` (ids, separated by spaces), ``low``, ``high``, ``baseline``, ``smallest detectable`` and ``p``
        (two-sided paired t test). With fewer than two seeds, the interval, the standard deviation and ``p`` are NaN.

    Raises:
        ValueError: if an objective has no rows, a value is not finite, or a measurement appears twice.
    """
    rows = _checked(rows)
    known = list(dict.fromkeys(rows["objective"]))
    compared = [name for name in known if name != baseline] if objectives is None else list(objectives)
    _require(known, [baseline, *compared], "objective")
    pairs = pd.concat([rows[rows["objective"] == name] for name in compared]) if compared else rows.iloc[:0]
    of_baseline = rows.loc[rows["objective"] == baseline, [*KEYS, "seed", "run", "value"]]
    pairs = pairs.merge(of_baseline, how="left", on=[*KEYS, "seed"], suffixes=("", " of baseline"))
    pairs["value"] = pairs["value"].where(pairs["value of baseline"].notna())
    pairs["difference"] = pairs["value"] - pairs["value of baseline"]
    found = _over_seeds(
        pairs,
        {
            "seeds": ("difference", "count"),
            "mean": ("value", "mean"),
            "baseline mean": ("value of baseline", "mean"),
            "difference": ("difference", "mean"),
            "standard deviation": ("difference", "std"),
            "p signed-rank": ("difference", signed_rank_p),
            "runs": ("run", _ids),
            "baseline runs": ("run of baseline", _ids),
        },
    )
    difference, deviation, seeds = found["difference"], found["standard deviation"], found["seeds"]
    found = _with_interval(found, "difference")
    found["baseline"] = baseline
    found["smallest detectable"] = DETECTABLE * deviation / np.sqrt(seeds)
    found["p"] = _paired_t(difference, deviation, seeds)
    return found


def _over_seeds(rows: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    return rows.groupby([*KEYS, "objective"], sort=False, observed=True, dropna=False).agg(**columns).reset_index()


def _ids(runs: pd.Series) -> str:
    return " ".join(runs.dropna())


def _with_interval(found: pd.DataFrame, center: str) -> pd.DataFrame:
    half = half_interval(found["standard deviation"], found["seeds"])
    return found.assign(low=found[center] - half, high=found[center] + half)


def half_interval(deviation: pd.Series, seeds: pd.Series) -> pd.Series:
    """Return half the width of the 95 % t interval of a mean, t · s / √n; NaN with fewer than two seeds.

    Args:
        deviation: standard deviation over seeds, with n − 1 in the denominator.
        seeds: n, the number of seeds.
    """
    quantile = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, np.maximum(seeds - 1, 1))
    return (quantile * deviation / np.sqrt(seeds)).where(seeds > 1)


def signed_rank_p(differences: Sequence[float]) -> float:
    """Compute the exact two-sided p value of Wilcoxon's signed-rank test by counting all sign patterns.

    Accuracies on a small test set often tie, so the test uses mid-ranks and drops zero differences.

    Args:
        differences: paired differences within seeds; NaN (no pair) is ignored.

    Returns:
        p in (0, 1]; NaN if there are no pairs; 1 if all differences are zero.

    Example:
        >>> signed_rank_p([0.1, 0.2, 0.3, 0.4, 0.5])  # five seeds cannot reach p < 0.05
        0.0625
    """
    given = np.asarray(differences, dtype=float)
    given = given[~np.isnan(given)]
    if given.size == 0:
        return float("nan")
    # Equal differences of fractions may differ in their last bits; rounding restores the ties.
    given = np.round(given, 12)
    given = given[given != 0]
    ranks = np.rint(2 * scipy.stats.rankdata(np.abs(given))).astype(int)  # doubled, so that mid-ranks are integers
    patterns = np.zeros(ranks.sum() + 1)
    patterns[0] = 1.0
    for rank in ranks:
        patterns[rank:] += patterns[:-rank].copy()
    positive = ranks[given > 0].sum()
    tail = min(patterns[: positive + 1].sum(), patterns[positive:].sum())
    return float(min(1.0, 2 * tail / patterns.sum()))


def holm(p: Sequence[float]) -> np.ndarray:
    """Apply Holm's step-down adjustment to a family of p values (Holm, 1979).

    Args:
        p: p values of the family; NaN stays NaN and does not count.

    Returns:
        The adjusted p values in the given order; an effect is significant at level α if its adjusted p is below α.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
        [0.03, 0.06, 0.06]
    """
    given = np.asarray(p, dtype=float)
    order = np.argsort(given, kind="stable")  # NaN sorts last
    remaining = np.count_nonzero(~np.isnan(given)) - np.arange(given.size)
    adjusted = np.empty(given.shape)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(remaining * given[order]))
    return adjusted


def select(rows: pd.DataFrame, candidates: Mapping[str, Sequence[str]], measured: Measurement) -> pd.DataFrame:
    """Choose the best variant of each objective by its mean on the validation split; for a single variant, no value is read.

    Args:
        rows: tidy rows; for objectives with several variants, only the values whose split is ``"validation"`` are read.
        candidates: variants to choose from, by objective; ties go to the first.
        measured: measurement to select by; the variant with the largest mean wins.

    Returns:
        One row per (study, dataset, objective) with ``variant`` (the selected variant), ``candidates`` (number of variants
        tried), ``seeds`` (number of seeds that all variants share; means are over these) and ``validation mean`` (of the
        selected variant; NaN for a single variant).

    Raises:
        ValueError: if a variant has no rows; or if an objective has several variants that share no seed or have no validation
            rows of that measurement.
    """
    found: list[tuple[Any, ...]] = []
    for (study, dataset), group in rows.groupby(["study", "dataset"], sort=False, observed=True):
        for objective, variants in candidates.items():
            own = group[group["objective"] == objective]
            if len(variants) == 1:
                _require(own["variant"].unique(), variants, f"variant of {objective}", f" of {dataset}")
                found.append(
                    (study, dataset, objective, variants[0], 1, own.loc[own["variant"] == variants[0], "seed"].nunique(), np.nan)
                )
                continue
            measurable = _checked(_chosen(own, measured, split="validation"), names=("objective", "variant"))
            table = measurable.pivot(index="seed", columns="variant", values="value")
            _require(table.columns, variants, f"variant of {objective}", f" of {dataset} on the validation split")
            complete = table[list(variants)].dropna()
            if complete.empty:
                raise ValueError(
                    f"{dataset}: the variants of {objective} ({', '.join(variants)}) have no seed in common; "
                    "expected at least one. Finish their runs."
                )
            best = complete.mean().round(12).idxmax()  # ties go to the first; equal means may differ in their last bits
            found.append((study, dataset, objective, best, len(variants), len(complete), complete[best].mean()))
    return pd.DataFrame(found, columns=["study", "dataset", "objective", "variant", "candidates", "seeds", "validation mean"])


def selected(table: pd.DataFrame, selection: pd.DataFrame) -> pd.DataFrame:
    """Return only the rows of the selected variants.

    Args:
        table: table with the columns ``dataset``, ``objective`` and ``variant``.
        selection: result of :func:`select`.
    """
    return table.merge(selection[["dataset", "objective", "variant"]], on=["dataset", "objective", "variant"])


def gate(rows: pd.DataFrame, baseline: str, oracle: str | None, chance: float, measured: Measurement) -> pd.DataFrame:
    """Check that a study is informative on the test split: baseline above chance, label oracle above the baseline.

    Args:
        rows: tidy rows, one variant per objective.
        baseline: the uncorrected objective.
        oracle: the objective with access to the labels; None: only compare the baseline with chance.
        chance: chance level of the metric, in its own unit (accuracy: 1 / classes).
        measured: measurement to check; larger values are better.

    Returns:
        One row per (study, dataset) with ``seeds``, ``baseline mean``, ``baseline low``, ``baseline high``, ``chance``,
        ``difference`` (oracle − baseline), ``low``, ``high``, ``above chance``, ``oracle wins`` and ``passed``. Without
        an oracle, ``difference``, ``low`` and ``high`` are NaN and ``oracle wins`` is true.

    Raises:
        ValueError: if a data set has no rows of the baseline or the oracle for that measurement.
    """
    rows = _chosen(rows, measured, split="test")
    for dataset, group in rows.groupby("dataset", sort=False, observed=True):
        _require(group["objective"].unique(), [baseline] if oracle is None else [baseline, oracle], "objective", f" of {dataset}")
    found = means(rows[rows["objective"] == baseline])
    found = found.rename(columns={"mean": "baseline mean", "low": "baseline low", "high": "baseline high"})
    if oracle is None:
        found = found.assign(difference=np.nan, low=np.nan, high=np.nan)
    else:
        gain = paired_differences(rows, baseline, [oracle]).drop(columns="baseline mean")
        found = found[["study", "dataset", "baseline mean", "baseline low", "baseline high"]].merge(gain, on=["study", "dataset"])
    found["chance"] = chance
    found["above chance"] = found["baseline low"] > chance
    found["oracle wins"] = (found["low"] > 0) | (oracle is None)
    found["passed"] = found["above chance"] & found["oracle wins"]
    return found[GATE]


def primary_contrast(
    rows: pd.DataFrame,
    treatment: str,
    baseline: str,
    measured: Measurement,
    dataset: str,
    expected: float | None = None,
    gate: pd.DataFrame | None = None,
) -> pd.Series:
    """Evaluate the primary contrast of a study on the test split.

    Args:
        rows: tidy rows of one study, one variant per objective.
        treatment: the objective whose gain is measured.
        baseline: the objective to compare it with.
        measured: measurement to compare; larger values are better.
        dataset: label of the data set.
        expected: a published or expected difference, in the metric's own unit: an interval that includes zero
            means "no difference seen" only if the study could have detected a difference of this size.
        gate: result of :func:`gate`; if the data set failed the gate, the conclusion is "uninformative".

    Returns:
        The row of :func:`paired_differences` with ``conclusion`` ("better", "worse", "no difference seen",
        "cannot tell" or "uninformative").

    Raises:
        ValueError: if an objective has no rows for that measurement.
    """
    chosen = _chosen(rows, measured, split="test", dataset=dataset)
    row = paired_differences(chosen, baseline, [treatment]).iloc[0].copy()
    gate_failed = gate is not None and not gate.set_index("dataset")["passed"].get(dataset, True)
    row["conclusion"] = "uninformative" if gate_failed else _conclusion(row, expected)
    return row


def _checked(rows: pd.DataFrame, names: Sequence[str] = ("objective",)) -> pd.DataFrame:
    """Return the columns used in comparisons; every value must be finite and every measurement unique."""
    rows = rows[COLUMNS].reset_index(drop=True)
    identity = [*KEYS, *names, "seed"]
    for broken, what in (
        (~np.isfinite(rows["value"].to_numpy(dtype=float)), "a value that is not finite"),
        (rows.duplicated(identity).to_numpy(), "the same measurement twice"),
    ):
        if broken.any():
            first = ", ".join(str(value) for value in rows.loc[broken.argmax(), identity].dropna())
            raise ValueError(f"rows contain {what} ({broken.sum()} in total, first for {first}); expected one finite value each.")
    return rows


def _require(known: Iterable[str], names: Sequence[str], what: str, where: str = "") -> None:
    absent = set(names).difference(known)
    if absent:
        raise ValueError(f"rows{where} contain no {what} {', '.join(sorted(absent))}; found {', '.join(known) or 'none'}.")


def _chosen(rows: pd.DataFrame, measured: Measurement, **wanted: str) -> pd.DataFrame:
    """Return the rows of one measurement that match the given column values."""
    kept = rows
    for column, value in {**wanted, **measured._asdict()}.items():
        before, kept = kept, with_value(kept, column, value)
        if kept.empty:
            found = "; ".join(sorted(map(str, before[column].unique()))) or "none"
            raise ValueError(f"rows contain no {column} {value!r}; found {found}.")
    return kept


def _paired_t(difference: pd.Series, deviation: pd.Series, seeds: pd.Series) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = np.abs(difference / (deviation / np.sqrt(seeds)))
    p = 2 * scipy.stats.t.sf(statistic, np.maximum(seeds - 1, 1))
    p = np.where(difference == 0, 1.0, p)  # also where all differences are 0, and so is their deviation
    return np.where(seeds > 1, p, np.nan)


def _conclusion(row: pd.Series, expected: float | None) -> str:
    if row["low"] > 0 or row["high"] < 0:
        return "better" if row["low"] > 0 else "worse"
    could_miss = expected is not None and row["smallest detectable"] > abs(expected)
    return "cannot tell" if row["seeds"] < 2 or could_miss else "no difference seen"
