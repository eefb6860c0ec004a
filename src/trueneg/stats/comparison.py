"""Paired differences over seeds, their outcomes, and the headroom of a study.

All objectives with the same seed share the subset, split, initial weights, batch order and
augmentation draws, so they are compared by their differences within each seed. All functions take
tidy rows with the columns :data:`COLUMNS`, one measured value per row; intervals are over seeds,
not over test images.
"""

import bisect
import functools
import math
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

HEADROOM = [
    *("study", "dataset", "seeds", "baseline mean", "baseline low", "baseline high"),
    *("chance", "difference", "low", "high", "above chance", "label"),
]
# Labels of a data set's headroom.
CLEAR, UNCLEAR, UNKNOWN = "clear headroom", "no clear headroom", "unknown headroom"
NOT_ABOVE_CHANCE = "not clearly above chance"

CONFIDENCE = 0.95  # level of all intervals
SIGNIFICANT = 0.05  # level of all tests
POWER = 0.8  # of the minimum detectable difference
# A standard deviation below this share of the largest value is rounding error: metrics are computed
# in single precision.
ROUNDING = 1e-6


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Compute the mean over seeds and its 95 % t interval for every objective and measurement.

    Args:
        rows: tidy rows, one variant per objective.

    Returns:
        One row per :data:`KEYS` and objective in order of appearance, with ``seeds`` (number of
            seeds), ``mean``, ``standard deviation``, ``runs`` (run ids, separated by spaces),
            ``low`` and ``high``. The interval is NaN with one seed (as is the standard deviation),
            or if the values of all seeds are equal up to rounding (the standard deviation is then
            0).

    Raises:
        ValueError: if a value is not finite, or a measurement appears twice.
    """
    rows = _checked(rows)
    table = _over_seeds(
        rows.assign(size=rows["value"].abs()),
        {
            "seeds": ("value", "count"),
            "mean": ("value", "mean"),
            "standard deviation": ("value", "std"),
            "runs": ("run", _ids),
        },
        ["standard deviation"],
    )
    return add_interval(table, "mean")


def paired_differences(
    rows: pd.DataFrame,
    baseline: str,
    objectives: Sequence[str] | None = None,
    margins: Mapping[Measurement, float] | None = None,
) -> pd.DataFrame:
    r"""Compare objectives with the baseline within each seed: mean difference, paired 95 % t
    interval and tests.

    .. math::
        \bar d \pm t_{n-1} \frac{s_d}{\sqrt n}, \qquad
        p = 2\,P\Bigl(T_{n-1} > \frac{|\bar d|\sqrt n}{s_d}\Bigr), \qquad
        p_\text{equivalence} = P\Bigl(T_{n-1} > \frac{(m - |\bar d|)\sqrt n}{s_d}\Bigr)

    The equivalence test consists of two one-sided tests against the margins −m and m (Schuirmann,
    1987); its p value is the larger of theirs.

    Args:
        rows: tidy rows, one variant per objective.
        baseline: the objective to subtract.
        objectives: objectives to compare; default: all except the baseline, in order of appearance.
        margins: equivalence margin m by measurement, in the metric's own unit; others are not
            tested for equivalence.

    Returns:
        One row per :data:`KEYS` and objective with ``seeds`` (number of seeds that both have;
            others are ignored), ``mean``, ``baseline mean``, ``difference``, ``standard deviation``
            (of the differences), ``p signed-rank`` (exact), ``runs`` and ``baseline runs`` (ids,
            separated by spaces), ``low``, ``high``, ``baseline``, ``correlation`` (Pearson's, of
            the two objectives' values over seeds), ``minimum detectable`` (see
            :func:`detectable_multiplier`), ``p`` (two-sided paired t test), ``margin`` and ``p
            equivalence``.

        With fewer than two seeds, the standard deviation is NaN. If the differences of all seeds
            are equal up to rounding, it is 0. In both cases, the interval and the minimum
            detectable difference are NaN; the p values are NaN in the first case, and those of
            exact sign tests in the second. The correlation is NaN with fewer than three seeds, or
            if either objective has the same value in all seeds.

    Raises:
        ValueError: if an objective has no rows, a value is not finite, or a measurement appears
            twice.
    """
    rows = _checked(rows)
    available = list(dict.fromkeys(rows["objective"]))
    if objectives is None:
        objectives = [name for name in available if name != baseline]
    _require(available, [baseline, *objectives], "objective")
    pairs = pd.concat([rows.iloc[:0], *(rows[rows["objective"] == name] for name in objectives)])
    of_baseline = rows.loc[rows["objective"] == baseline, [*KEYS, "seed", "run", "value"]]
    pairs = pairs.merge(of_baseline, how="left", on=[*KEYS, "seed"], suffixes=("", " of baseline"))
    pairs["value"] = pairs["value"].where(pairs["value of baseline"].notna())
    pairs["difference"] = pairs["value"] - pairs["value of baseline"]
    pairs["size"] = np.maximum(pairs["value"].abs(), pairs["value of baseline"].abs())
    table = _over_seeds(
        pairs,
        {
            "seeds": ("difference", "count"),
            "mean": ("value", "mean"),
            "baseline mean": ("value of baseline", "mean"),
            "difference": ("difference", "mean"),
            "standard deviation": ("difference", "std"),
            "own deviation": ("value", "std"),
            "baseline deviation": ("value of baseline", "std"),
            "p signed-rank": ("difference", signed_rank_p),
            "runs": ("run", _ids),
            "baseline runs": ("run of baseline", _ids),
        },
        ["standard deviation", "own deviation", "baseline deviation"],
    )
    return _with_tests(add_interval(table, "difference").assign(baseline=baseline), margins or {})


def _with_tests(table: pd.DataFrame, margins: Mapping[Measurement, float]) -> pd.DataFrame:
    """Add correlation, minimum detectable difference and tests to a table of paired differences."""
    seeds = table["seeds"]
    degrees = np.maximum(seeds - 1, 1)
    distance = table["difference"].abs()
    deviation = table["standard deviation"]
    error = deviation.where(deviation > 0) / np.sqrt(seeds)
    own_deviation = table.pop("own deviation")
    baseline_deviation = table.pop("baseline deviation")
    product = own_deviation * baseline_deviation
    table["correlation"] = (
        (own_deviation**2 + baseline_deviation**2 - deviation**2)
        / 2
        / product.where((product > 0) & (seeds > 2))
    ).clip(-1, 1)
    table["minimum detectable"] = seeds.map(detectable_multiplier) * error
    table["margin"] = np.nan
    for measured, margin in margins.items():
        table.loc[measured.rows_of(table).index, "margin"] = margin
    room = table["margin"] - distance
    # Without variation, all seeds are on one side of zero and of the margin: exact sign tests.
    sign = 0.5**seeds
    no_difference = distance <= ROUNDING * table["baseline mean"].abs()
    constant = {
        "p": (2 * sign).mask(no_difference, 1.0),
        "p equivalence": sign.where(room > 0, 1.0).where(room.notna()),
    }
    table["p"] = 2 * scipy.stats.t.sf(distance / error, degrees)
    table["p equivalence"] = scipy.stats.t.sf(room / error, degrees)
    constant["p signed-rank"] = constant["p"]
    return table.assign(
        **{name: table[name].mask(deviation == 0, exact) for name, exact in constant.items()}
    )


def with_exact_ends(table: pd.DataFrame) -> pd.DataFrame:
    """Return paired differences whose interval is the difference itself where all seeds agree, to
    be compared with a bound; see :func:`add_interval`.
    """
    exact = table["difference"].where(table["standard deviation"] == 0)
    return table.assign(**{end: table[end].fillna(exact) for end in ("low", "high")})


def within_headroom(table: pd.DataFrame, gains: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Withdraw the equivalence tests whose margin the oracle's gain is not shown to exceed: being
    that close to the baseline would then mean nothing.

    Args:
        table: table from :func:`paired_differences`.
        gains: its rows of the oracle, over each baseline that it must gain over.
        baseline: the uncorrected baseline, against which the oracle keeps its own test.
    """
    gains = with_exact_ends(gains).fillna({"low": -np.inf})  # none is shown without an interval
    smallest = gains.sort_values("low").drop_duplicates(KEYS)
    least = table[KEYS].merge(smallest[[*KEYS, "low"]], how="left", on=KEYS)["low"].to_numpy()
    is_gain = table["objective"].isin(gains["objective"]) & (table["baseline"] == baseline)
    is_withdrawn = (table["margin"] >= least) & ~is_gain
    return table.assign(**{"p equivalence": table["p equivalence"].mask(is_withdrawn)})


def subtracted(rows: pd.DataFrame, objective: str, other: str) -> pd.DataFrame:
    """Return the tidy rows of an objective minus those of another within each seed, for a
    difference of differences.

    Args:
        rows: tidy rows, one variant per objective; seeds that only one of the two has are left out.
        objective: the objective whose name the rows keep.
        other: the objective to subtract.
    """
    minuend, subtrahend = (rows[rows["objective"] == name] for name in (objective, other))
    both = minuend.merge(
        subtrahend[[*KEYS, "seed", "run", "value"]], on=[*KEYS, "seed"], suffixes=("", " of other")
    )
    runs = both["run"] + " " + both["run of other"]
    return both.assign(value=both["value"] - both["value of other"], run=runs)[COLUMNS]


def _over_seeds(
    rows: pd.DataFrame, columns: Mapping[str, Any], deviations: Sequence[str]
) -> pd.DataFrame:
    """Aggregate over seeds; standard deviations that are only rounding errors, relative to the
    column ``size``, become 0.
    """
    by_objective = rows.groupby([*KEYS, "objective"], sort=False, observed=True, dropna=False)
    table = by_objective.agg(**columns, largest=("size", "max")).reset_index()
    rounding = ROUNDING * table.pop("largest")
    return table.assign(
        **{name: table[name].mask(table[name] <= rounding, 0.0) for name in deviations}
    )


def _ids(runs: pd.Series) -> str:
    return " ".join(run for run in runs if pd.notna(run))


def add_interval(table: pd.DataFrame, mean: str) -> pd.DataFrame:
    """Add the ends of the 95 % t interval of a mean, mean ± t · s / √n; NaN with fewer than two
    seeds or if s is 0.

    Args:
        table: table with ``seeds`` (n) and ``standard deviation`` (s, with n − 1 in the
            denominator).
        mean: name of the column with the mean.
    """
    seeds = table["seeds"]
    deviation = table["standard deviation"]
    quantile = scipy.stats.t.ppf((1 + CONFIDENCE) / 2, np.maximum(seeds - 1, 1))
    half = (quantile * deviation / np.sqrt(seeds)).where((seeds > 1) & (deviation > 0))
    return table.assign(low=table[mean] - half, high=table[mean] + half)


@functools.cache
def detectable_multiplier(seeds: int, comparisons: int = 1) -> float:
    r"""Return the minimum detectable difference in units of :math:`s_d / \sqrt n`.

    At this true difference :math:`\delta`, the two-sided paired t test rejects with a power of
    80 % in the first step of Holm's correction, at 5 % divided by the number of comparisons: the
    test statistic follows the noncentral t distribution with n − 1 degrees of freedom and
    noncentrality :math:`\delta \sqrt n / \sigma`.

    Args:
        seeds: n, the number of pairs; below two, the result is NaN.
        comparisons: number of comparisons in the family.

    Example:
        >>> [round(detectable_multiplier(seeds), 2) for seeds in (5, 6, 8)]
        [3.76, 3.51, 3.27]
        >>> round(detectable_multiplier(8, comparisons=7), 2)
        4.8
    """
    if seeds < 2:
        return float("nan")
    degrees = seeds - 1
    critical = scipy.stats.t.isf(SIGNIFICANT / comparisons / 2, degrees)

    def excess_power(noncentrality: float) -> float:
        # The lower tail is the mirrored upper one: nct.cdf gives NaN for some lower tails near 0,
        # nct.sf does not.
        return (
            float(np.sum(scipy.stats.nct.sf(critical, degrees, [noncentrality, -noncentrality])))
            - POWER
        )

    return float(scipy.optimize.brentq(excess_power, 0, 2 * critical))


def seeds_to_detect(difference: float, deviation: float, most: int = 1000) -> int | None:
    """Return the number of seeds with which a paired t test at 5 % detects a difference with a
    power of 80 %.

    Args:
        difference: true difference, other than 0.
        deviation: standard deviation of the paired difference.
        most: largest number to consider; None is returned if more are needed.

    Example:
        >>> seeds_to_detect(0.5, 1.0), seeds_to_detect(-0.001, 1.0)
        (34, None)
    """
    counts = range(2, most + 1)
    place = bisect.bisect_left(
        counts,
        -abs(difference),
        key=lambda seeds: -detectable_multiplier(seeds) * deviation / math.sqrt(seeds),
    )
    return counts[place] if place < len(counts) else None


def signed_rank_p(differences: Sequence[float]) -> float:
    """Compute the exact two-sided p value of Wilcoxon's signed-rank test by counting all sign
    patterns.

    Accuracies on a small test set often tie, so the test uses mid-ranks and drops zero differences.

    Args:
        differences: paired differences within seeds; NaN (no pair) is ignored.

    Returns:
        p in (0, 1]; NaN if there are no pairs; 1 if all differences are zero.

    Example:
        >>> signed_rank_p([0.1, 0.2, 0.3, 0.4, 0.5])  # five seeds cannot reach p < 0.05
        0.0625
    """
    values = np.asarray(differences, dtype=float)
    values = values[~np.isnan(values)]
    if values.size == 0:
        return float("nan")
    # Equal differences of fractions may differ in their last bits; rounding restores the ties.
    values = np.round(values, 12)
    values = values[values != 0]
    # doubled, so that mid-ranks are integers
    ranks = np.rint(2 * scipy.stats.rankdata(np.abs(values))).astype(int)
    patterns = np.zeros(ranks.sum() + 1)
    patterns[0] = 1.0
    for rank in ranks:
        patterns[rank:] += patterns[:-rank].copy()
    positive = ranks[values > 0].sum()
    tail = min(patterns[: positive + 1].sum(), patterns[positive:].sum())
    return float(min(1.0, 2 * tail / patterns.sum()))


def holm(p: Sequence[float]) -> np.ndarray:
    """Apply Holm's step-down adjustment to a family of p values (Holm, 1979).

    Args:
        p: p values of the family; NaN stays NaN and does not count.

    Returns:
        The adjusted p values in the given order; an effect is significant at level α if its
            adjusted p is below α.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
        [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=float)
    order = np.argsort(values, kind="stable")  # NaN sorts last
    remaining = np.count_nonzero(~np.isnan(values)) - np.arange(values.size)
    adjusted = np.empty(values.shape)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(remaining * values[order]))
    return adjusted


def outcome(
    difference: float, p: float, p_equivalence: float = float("nan"), higher_is_better: bool = True
) -> str:
    """Name the outcome of a comparison at the 5 % level.

    * ``"better"`` or ``"worse"``: the two-sided test rejects a difference of zero. ``" by less than
      the margin"`` follows if the equivalence test rejects as well.
    * ``"equivalent"``: only the equivalence test rejects, that is, both of its one-sided tests.
    * ``"undecided"``: neither rejects, or there is no test, as with one seed.

    Args:
        difference: objective − baseline; only its sign is read.
        p: p value of the two-sided test, adjusted by :func:`holm` if the comparison is one of
            several.
        p_equivalence: p value of the equivalence test; NaN without a margin.
        higher_is_better: whether larger values of the metric are better.

    Example:
        >>> (
        ...     outcome(0.02, 0.001),
        ...     outcome(0.001, 0.4, 0.01),
        ...     outcome(-4.0, 0.03, 0.01, higher_is_better=False),
        ... )
        ('better', 'equivalent', 'better by less than the margin')
    """
    is_within = p_equivalence < SIGNIFICANT
    if p < SIGNIFICANT:
        ranked = "better" if (difference > 0) == higher_is_better else "worse"
        return f"{ranked} by less than the margin" if is_within else ranked
    return "equivalent" if is_within else "undecided"


def selected(table: pd.DataFrame, selection: pd.DataFrame) -> pd.DataFrame:
    """Return only the rows of the selected variants.

    Args:
        table: table with the columns ``dataset``, ``objective`` and ``variant``.
        selection: the variant of each data set and objective, in the same columns.
    """
    return table.merge(
        selection[["dataset", "objective", "variant"]], on=["dataset", "objective", "variant"]
    )


def headroom(
    rows: pd.DataFrame,
    baseline: str,
    oracle: str | None,
    chance: float,
    measured: Measurement,
    higher_is_better: bool = True,
) -> pd.DataFrame:
    """Measure what knowing the false negatives gains on the test split: the paired difference
    oracle − baseline.

    The headroom concerns only corrections of false negatives. It is not an upper bound: other
    methods may gain without it.

    Args:
        rows: tidy rows, one variant per objective.
        baseline: the uncorrected objective.
        oracle: the objective that knows the false negatives; None: the headroom is unknown.
        chance: chance level of the metric, in its own unit.
        measured: measurement to check.
        higher_is_better: whether larger values of the metric are better.

    Returns:
        One row per (study, dataset) with ``seeds``, ``baseline mean``, ``baseline low``, ``baseline
            high``, ``chance``, ``difference`` (oracle − baseline), ``low``, ``high`` (NaN without
            an oracle), ``above chance`` (whether the baseline's interval lies on the better side of
            chance) and ``label``: :data:`NOT_ABOVE_CHANCE`, :data:`CLEAR` (the interval of the
            difference lies on the better side of zero), :data:`UNCLEAR` or :data:`UNKNOWN` (no
            oracle, or no interval).

    Raises:
        ValueError: if a data set has no rows of the baseline or the oracle for that measurement.
    """
    rows = _chosen(rows, measured, split="test")
    for dataset, group in rows.groupby("dataset", sort=False, observed=True):
        _require(
            group["objective"].unique(),
            [baseline] if oracle is None else [baseline, oracle],
            "objective",
            f" of {dataset}",
        )
    table = means(rows[rows["objective"] == baseline])
    table = table.rename(
        columns={"mean": "baseline mean", "low": "baseline low", "high": "baseline high"}
    )
    if oracle is None:
        table = table.assign(difference=np.nan, low=np.nan, high=np.nan)
    else:
        gain = paired_differences(rows, baseline, [oracle]).drop(columns="baseline mean")
        table = table[["study", "dataset", "baseline mean", "baseline low", "baseline high"]].merge(
            gain, on=["study", "dataset"]
        )
    table["chance"] = chance
    edge = table["baseline low" if higher_is_better else "baseline high"]
    # if values are equal, the edge is the mean
    edge = edge.where(edge.notna() | (table["seeds"] < 2), table["baseline mean"])
    table["above chance"] = edge > chance if higher_is_better else edge < chance
    gains = table["low"] > 0 if higher_is_better else table["high"] < 0
    cases = [edge.isna(), ~table["above chance"], table["low"].isna(), gains]
    table["label"] = np.select(cases, [UNKNOWN, NOT_ABOVE_CHANCE, UNKNOWN, CLEAR], default=UNCLEAR)
    return table[HEADROOM]


def primary_contrast(
    rows: pd.DataFrame,
    treatment: str,
    baseline: str,
    measured: Measurement,
    dataset: str,
    margin: float | None = None,
    oracle: str | None = None,
    crossed: pd.DataFrame | None = None,
    uncorrected: Sequence[str] = (),
) -> pd.Series:
    """Evaluate the primary contrast of a study on the test split; as the only one in its family, it
    needs no adjustment.

    Args:
        rows: tidy rows of one study, one variant per objective.
        treatment: the objective whose gain is measured.
        baseline: the objective to compare it with.
        measured: measurement to compare.
        dataset: label of the data set.
        margin: equivalence margin, in the metric's own unit; None: equivalence is not tested.
        oracle: the objective whose gain must exceed the margin (:func:`within_headroom`); None:
            none must.
        crossed: :func:`trueneg.stats.crossed.crossed_comparisons` of the measurement, whose
            intervals and tests, over samples, too, replace those over seeds; None: nothing does.
        uncorrected: over which the oracle must gain, the study's baseline first; empty: the
            baseline.

    Returns:
        The row of :func:`paired_differences` with its ``outcome`` (see :func:`outcome`) and, if
            samples are covered, the number of their ``clusters`` and the number of ``samples``.

    Raises:
        ValueError: if an objective has no rows for that measurement.
    """
    chosen = _chosen(rows, measured, split="test", dataset=dataset)
    margins = {} if margin is None else {measured: margin}
    table = paired_differences(chosen, baseline, [treatment], margins)
    if oracle is not None:
        over = uncorrected or [baseline]
        gains = [paired_differences(chosen, each, [oracle]) for each in over]
        wider = over_samples(pd.concat(gains, ignore_index=True), crossed)
        table = within_headroom(table, wider, over[0])
    row = over_samples(table, crossed).iloc[0].copy()
    row["outcome"] = outcome(row["difference"], row["p"], row["p equivalence"])
    return row


def over_samples(table: pd.DataFrame, crossed: pd.DataFrame | None) -> pd.DataFrame:
    """Return differences between objectives with the intervals and tests over seeds and samples
    where these were made; what could have been detected with them is not known.
    """
    if crossed is None:
        return table
    sides = ["objective", "baseline"]
    wider = table[sides].merge(crossed, how="left", on=sides).set_axis(table.index)
    wider = wider.drop(columns=sides).astype(float)
    is_tested = table["p equivalence"].notna()  # else it was withdrawn, or there is no margin
    wider["p equivalence"] = wider["p equivalence"].where(is_tested)
    wider["minimum detectable"] = np.nan
    is_found = wider["clusters"].notna()
    return table.assign(
        **{
            str(name): table[name].mask(is_found, values) if name in table else values
            for name, values in wider.items()
        }
    )


def _checked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the columns used in comparisons; every value must be finite and every measurement
    unique.
    """
    rows = rows[COLUMNS].reset_index(drop=True)
    identity = [*KEYS, "objective", "seed"]
    for broken, what in (
        (~np.isfinite(rows["value"].to_numpy(dtype=float)), "a value that is not finite"),
        (rows.duplicated(identity).to_numpy(), "the same measurement twice"),
    ):
        if broken.any():
            first = ", ".join(str(value) for value in rows.loc[broken.argmax(), identity].dropna())
            raise ValueError(
                f"rows contain {what} ({broken.sum()} in total, first for {first}); expected one"
                " finite value each."
            )
    return rows


def _require(available: Iterable[str], names: Sequence[str], what: str, where: str = "") -> None:
    if absent := set(names).difference(available):
        raise ValueError(
            f"rows{where} contain no {what} {', '.join(sorted(absent))}; found"
            f" {', '.join(available) or 'none'}."
        )


def _chosen(rows: pd.DataFrame, measured: Measurement, **wanted: str) -> pd.DataFrame:
    """Return the rows of one measurement that match the given column values."""
    for column, value in {**wanted, **measured._asdict()}.items():
        if (matching := with_value(rows, column, value)).empty:
            present = "; ".join(sorted(map(str, rows[column].unique()))) or "none"
            raise ValueError(f"rows contain no {column} {value!r}; found {present}.")
        rows = matching
    return rows
