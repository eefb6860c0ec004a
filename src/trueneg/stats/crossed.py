"""Intervals over two sources of variation at once: training runs and held-out samples."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy import ndarray
from pandas import DataFrame
from scipy import stats

from trueneg.stats.comparison import ROUNDING

TINY = 1e-300  # against division by zero
COMPARED = ["objective", "baseline", "low", "high", "p", "p equivalence", "clusters", "samples"]


class CrossedInterval(NamedTuple):
    """A mean difference with what its confidence interval follows from.

    Attributes:
        difference: the mean over runs of the mean over samples.
        error: its standard error.
        freedom: degrees of freedom of Student's t.
        clusters: number of clusters of samples.
    """

    difference: float
    error: float
    freedom: float
    clusters: int

    def ends(self, level: float = 0.95) -> tuple[float, float]:
        """Return the ends of the interval."""
        half = float(stats.t.ppf((1 + level) / 2, self.freedom) * self.error)
        return self.difference - half, self.difference + half


def crossed_interval(
    differences: Sequence[ndarray], clusters: Sequence[ndarray]
) -> CrossedInterval:
    r"""Return a mean difference with an interval that covers new runs *and* new samples.

    With S runs, run s of which has the differences :math:`d_{si}` on :math:`n_s` samples, each with
    the weight :math:`1 / (S n_s)`, the variance is

    .. math::

        \hat V = \hat V_\text{runs} + \hat V_\text{clusters} - \hat V_\text{both}, \qquad
        \hat V_\text{by} = \sum_{g = 1}^{G} v_g, \qquad
        v_g = \frac{\bigl(\sum_{si \in g} (d_{si} - \bar d) / (S n_s)\bigr)^2}
            {1 - 2 w_g + \sum_h w_h^2},

    with the G runs, the G clusters of samples, or their intersections (without the denominator) as
    groups of the weight :math:`w_g`: the variance of Cameron, Gelbach and Miller (2011), Robust
    Inference With Multiway Clustering, for a mean. The denominator makes :math:`v_g` unbiased if
    the means of groups vary equally, however unequal their sizes are; with equal weights it is
    their factor, :math:`G / (G - 1)`. The variance is at least the larger of the first two terms.

    Student's t has the degrees of freedom of Satterthwaite (1946), at least the smaller number
    of the runs and the clusters. Runs have :math:`S - 1`; clusters have
    :math:`3 (\sum_g v_g)^2 / \sum_g v_g^2 - 2`, from 1 to :math:`G - 1`: the estimate for normal
    sums of groups. A cluster with most of the variance leaves few, however many others there are.

    Args:
        differences: S ≥ 2 arrays (n_s,), treatment less baseline for each held-out sample of a run.
        clusters: S arrays (n_s,) of what belongs together, such as the patient of an image; runs
            may have different samples. At least two in all.

    Raises:
        ValueError: with fewer than two runs or clusters.

    Example:
        >>> one = np.array([1.0, 0.0, 0.0, 1.0])
        >>> crossed_interval([one, one], [np.arange(4)] * 2).difference
        0.5
    """
    runs = len(differences)
    names, cluster = np.unique(np.concatenate(clusters), return_inverse=True)
    if runs < 2 or len(names) < 2:
        raise ValueError(f"{runs} runs and {len(names)} clusters; expected at least 2 of each")
    mean = float(np.mean([values.mean() for values in differences]))
    sizes = np.array([len(values) for values in differences])
    run = np.repeat(np.arange(runs), sizes)
    weight = np.repeat(1 / (runs * sizes), sizes)
    residual = (np.concatenate(differences) - mean) * weight
    of_runs = _variances(run, residual, weight).sum()
    by_cluster = _variances(cluster, residual, weight)
    of_clusters = by_cluster.sum()
    both = np.unique(run * len(names) + cluster, return_inverse=True)[1]
    shared = (np.bincount(both, residual) ** 2).sum()
    variance = float(max(of_runs + of_clusters - shared, of_runs, of_clusters))
    freedom = min(runs, len(names)) - 1.0
    if variance:
        effective = 3 * of_clusters**2 / max((by_cluster**2).sum(), TINY) - 2
        of_each = np.array([runs - 1, np.clip(effective, 1, len(names) - 1)])
        terms = (np.array([of_runs, of_clusters]) ** 2 / of_each).sum()
        freedom = float(max(variance**2 / terms, of_each.min()))
    return CrossedInterval(mean, variance**0.5, freedom, len(names))


def crossed_comparisons(values: DataFrame, margin: float | None) -> DataFrame:
    """Compare each objective with each other one, over runs and samples.

    Args:
        values: columns ``objective``, ``seed``, ``sample``, ``cluster`` and ``value``: what each
            run measured on each test sample.
        margin: equivalence margin, in the metric's own unit; None: equivalence is not tested.

    Returns:
        Columns ``objective``, ``baseline``, ``low``, ``high``, ``p``, ``p equivalence``, as in
            :func:`trueneg.stats.comparison.paired_differences`, and the numbers of ``clusters``
            and ``samples``; a row for each pair that shares at least two seeds.
    """
    tables = dict(list(values.groupby("objective", sort=False)))
    rows = []
    for objective, baseline in itertools.permutations(tables, 2):
        both = tables[objective].merge(
            tables[baseline], on=["seed", "sample", "cluster"], suffixes=("", " of baseline")
        )
        both["difference"] = both["value"] - both["value of baseline"]
        by_seed = [of_seed for _, of_seed in both.groupby("seed")]
        if len(by_seed) < 2 or both["cluster"].nunique() < 2:
            continue
        found = crossed_interval(
            [each["difference"].to_numpy() for each in by_seed],
            [each["cluster"].to_numpy() for each in by_seed],
        )
        largest = both[["value", "value of baseline"]].abs().to_numpy().max()
        if found.error <= ROUNDING * largest:
            found = found._replace(error=0.0)
        low, high = found.ends()
        distance = abs(found.difference)
        tests = {
            "p": _p(distance, found, len(by_seed)) * 2,
            "p equivalence": np.nan
            if margin is None
            else _p(margin - distance, found, len(by_seed)),
        }
        rows.append(
            {"objective": objective, "baseline": baseline, "low": low, "high": high}
            | tests
            | {"clusters": found.clusters, "samples": both["sample"].nunique()}
        )
    return DataFrame(rows, columns=COMPARED)


def _p(distance: float, found: CrossedInterval, seeds: int) -> float:
    """Return the one-sided p value of a distance from zero; without variation, that of an exact
    sign test over the seeds.
    """
    if found.error:
        return float(stats.t.sf(distance / found.error, found.freedom))
    return 0.5**seeds if distance > 0 else 0.5


def _variances(group: ndarray, residual: ndarray, weight: ndarray) -> ndarray:
    """Return what each group adds to the variance of a mean whose residuals are independent between
    groups only.
    """
    weights = np.bincount(group, weight)
    return np.bincount(group, residual) ** 2 / (1 - 2 * weights + (weights**2).sum())
